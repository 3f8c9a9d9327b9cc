// Requests with different costs, and the difference between "later" and "never".
#include <sluice/sluice.h>

#include <cstdint>
#include <cstdio>

using namespace std::chrono_literals;

// [start costs]
// One unit per megabyte: 100 megabytes per minute, at most 50 at once.
constexpr auto kUpload = sluice::token_bucket(100).per(60s).burst(50);

void upload(sluice::Limiter& limiter, std::uint64_t megabytes) {
  const sluice::Decision decision = limiter.try_acquire("user:42", kUpload, megabytes);
  if (decision) {
    std::printf("%llu MB: accepted\n", static_cast<unsigned long long>(megabytes));
  } else if (decision.retry_after) {  // absent if the request can never pass
    std::printf("%llu MB: later\n", static_cast<unsigned long long>(megabytes));
  } else {
    std::printf("%llu MB: too large\n", static_cast<unsigned long long>(megabytes));
  }
}
// [end costs]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  upload(limiter, 40);
  upload(limiter, 40);
  upload(limiter, 51);
}
