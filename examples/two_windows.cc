// One key under two limits: a burst limit per second and a quota per day.
#include <sluice/sluice.h>

#include <array>
#include <cstdio>

using namespace std::chrono_literals;

constexpr auto kPerSecond = sluice::token_bucket(2).per(1s);
constexpr auto kPerDay = sluice::fixed_window(3).per(24h).aligned_to_clock();

const char* request(sluice::Limiter& limiter, sluice::Instant now) {
  // The algorithms differ, so one key has two counters.
  const std::array charges{sluice::Charge{"user:42", kPerSecond},
                           sluice::Charge{"user:42", kPerDay}};
  std::array<sluice::Decision, 2> each;
  if (limiter.check(charges, each, now)) return "allowed";
  return each[0] ? "quota of the day used up" : "too fast";
}

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  const sluice::Instant start{24h * 365};
  for (const sluice::Duration after : {0s, 0s, 0s, 1s, 2s, 86400s}) {
    std::puts(request(limiter, start + after));
  }
}
