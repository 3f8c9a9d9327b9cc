// Requests that cost more than one unit: known before, known afterwards, and as many as are left.
#include <sluice/sluice.h>

#include <cstdint>
#include <cstdio>

using namespace std::chrono_literals;

// [start costs]
// One unit is a megabyte.
constexpr auto kTraffic = sluice::token_bucket(600).per(1h).burst(100);

bool upload(sluice::Limiter& limiter, std::uint64_t megabytes) {
  return limiter.try_acquire("customer:42", kTraffic, megabytes).allowed();
}

void download(sluice::Limiter& limiter) {
  if (!limiter.peek("customer:42", kTraffic)) {
    std::puts("no download now");
    return;
  }
  const std::uint64_t megabytes = 90;  // is known when everything is sent
  const auto decision = limiter.charge("customer:42", kTraffic, megabytes);
  std::puts(decision.reason == sluice::Reason::kOver ? "beyond the limit" : "within the limit");
}
// [end costs]

// [start at_most]
std::uint64_t send_some(sluice::Limiter& limiter, std::uint64_t queued) {
  constexpr auto kMails = sluice::fixed_window(100).per(1h);
  const auto decision = limiter.take_at_most("mails", kMails, queued);
  return decision ? decision.taken : 0;  // send this many now
}
// [end at_most]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  std::puts(upload(limiter, 80) ? "uploaded" : "not now");
  std::puts(upload(limiter, 80) ? "uploaded" : "not now");
  download(limiter);
  download(limiter);
  for (int i = 0; i < 3; ++i) {
    std::printf("%d mails\n", static_cast<int>(send_some(limiter, 60)));
  }
}
