// The shortest program with a limit.
// [start quickstart]
#include <sluice/sluice.h>

#include <cstdio>

using namespace std::chrono_literals;

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  constexpr auto kPerUser = sluice::token_bucket(100).per(1h).burst(3);

  for (int i = 0; i < 4; ++i) {
    const sluice::Decision decision = limiter.try_acquire("user:42", kPerUser);
    std::printf("%s, %lu left\n", decision ? "allowed" : "denied", decision.remaining);
  }
}
// [end quickstart]
