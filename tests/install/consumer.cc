// A program that has Sluice from an installation or as a subdirectory.

#include <cstdio>

#include "sluice/sluice.h"
#include "sluice/testing/manual_clock.h"

using namespace std::chrono_literals;

int main() {
  const sluice::testing::ManualClock clock;
  sluice::MemoryStore store({.max_keys = 100}, clock);
  sluice::DenyCache cache;
  sluice::DenyCacheStore cached(store, cache);
  sluice::Limiter limiter(cached);
  constexpr auto kLimit = sluice::token_bucket(2).per(1s);
  const sluice::KeyBuilder key("user", 42);
  int admitted = 0;
  for (int i = 0; i < 5; ++i) admitted += limiter.try_acquire(key.view(), kLimit) ? 1 : 0;
  std::printf("admitted %d of 5\n", admitted);
  return admitted == 2 ? 0 : 1;
}
