#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "limiter/counter_clock.h"
#include "sluice/clock.h"

namespace sluice {
namespace {

using detail::TickAnchor;
using namespace std::chrono_literals;

constexpr std::int64_t kStart = 1'767'225'600'000'000'000;  // 2026, in ns
constexpr std::int64_t kMs = 1'000'000;

// A processor whose counter has `ticks` for every 10 ns, and the clocks of its system.
struct Machine {
  std::int64_t ns = 0;
  std::uint64_t ticks = 12'345;
  std::uint64_t ticks_in_10_ns = 23;
  std::int64_t set_by = 0;  // the real-time clock was set
  TickAnchor anchor;

  void pass(std::int64_t more) {
    ns += more;
    ticks += static_cast<std::uint64_t>(more) * ticks_in_10_ns / 10;
  }
  void sample() { anchor.add({ticks, real(), 5 + ns}); }
  std::int64_t real() const { return kStart + ns + set_by; }
  bool can_read() const {
    Instant at;
    return anchor.read(ticks, at);
  }
  std::int64_t error_us() const {
    Instant at;
    EXPECT_TRUE(anchor.read(ticks, at));
    return at.time_since_epoch().count() - real() / 1000;
  }
};

Machine calibrated() {
  Machine m;
  m.sample();
  m.pass(8 * kMs);
  m.sample();
  return m;
}

TEST(TickAnchor, NeedsTwoSamples) {
  Machine m;
  EXPECT_FALSE(m.can_read());
  m.sample();
  EXPECT_FALSE(m.can_read());
  m.pass(7 * kMs);
  m.sample();
  EXPECT_FALSE(m.can_read());
  m.pass(1 * kMs);
  m.sample();
  EXPECT_TRUE(m.can_read());
}

TEST(TickAnchor, IsExactToAMicrosecondForAMillisecond) {
  Machine m = calibrated();
  for (int i = 0; i < 999; ++i) {
    EXPECT_LE(std::abs(m.error_us()), 1);
    m.pass(1000);
  }
  m.pass(2000);
  EXPECT_FALSE(m.can_read());
}

TEST(TickAnchor, FollowsAClockThatIsSet) {
  Machine m = calibrated();
  m.set_by = -3600 * 1000 * kMs;
  m.pass(kMs);
  m.sample();
  EXPECT_LE(std::abs(m.error_us()), 1);
}

TEST(TickAnchor, StartsAgainIfTheRateChanges) {
  Machine m = calibrated();
  m.pass(4 * kMs);
  m.ticks_in_10_ns = 31;
  m.pass(4 * kMs);
  m.sample();
  EXPECT_FALSE(m.can_read());
  m.pass(8 * kMs);
  m.sample();
  EXPECT_LE(std::abs(m.error_us()), 1);
}

TEST(TickAnchor, StartsAgainIfTheCounterGoesBack) {
  Machine m = calibrated();
  m.ticks = 1;
  EXPECT_FALSE(m.can_read());
  m.pass(8 * kMs);
  m.sample();
  EXPECT_FALSE(m.can_read());
  m.pass(8 * kMs);
  m.sample();
  EXPECT_LE(std::abs(m.error_us()), 1);
}

TEST(CounterClock, DiffersFromTheSystemByAtMostTwoMicroseconds) {
  const auto compare = [] {
    const SystemClock& system = SystemClock::instance();
    for (const Instant end = system.now() + 100ms; system.now() < end;) {
      const Instant before = system.now();
      const Instant now = CounterClock::instance().now();
      const Instant after = system.now();
      ASSERT_LE(before - 2us, now);
      ASSERT_LE(now, after + 2us);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(compare);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice
