// A test that does not sleep.
// [start test]
#include <sluice/sluice.h>
#include <sluice/testing/manual_clock.h>

#include <cstdio>

using namespace std::chrono_literals;

int main() {
  sluice::testing::ManualClock clock;
  sluice::MemoryStore store({}, clock);
  sluice::Limiter limiter(store);
  constexpr auto kLimit = sluice::sliding_window_log(1).per(24h);

  bool right = limiter.try_acquire("key", kLimit).allowed();
  const sluice::Decision denied = limiter.try_acquire("key", kLimit);
  right = right && denied.retry_after == sluice::Duration{24h};

  clock.advance(*denied.retry_after - 1us);
  right = right && !limiter.try_acquire("key", kLimit);
  clock.advance(1us);
  right = right && limiter.try_acquire("key", kLimit).allowed();
  std::puts(right ? "a day has passed, to the microsecond" : "wrong");
}
// [end test]
