#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/property/generate.h"
#include "tests/property/probe.h"

// Rates from one per day to two thousand per tick, each exact over long runs.
namespace sluice_property::rates_test {
namespace {

using sluice_oracle::Algorithm;
using sluice_oracle::Spec;
__extension__ using Wide = unsigned __int128;

constexpr std::int64_t kSecond = 1000000;
constexpr std::int64_t kDay = 86400 * kSecond;

std::vector<Spec> rates() {
  std::vector<Spec> specs;
  for (const Algorithm algorithm :
       {Algorithm::kTokenBucket, Algorithm::kLeakyBucket, Algorithm::kGcra}) {
    const auto add = [&](std::uint64_t limit, std::int64_t per_us) {
      specs.push_back({.algorithm = algorithm, .limit = limit, .per_us = per_us});
    };
    add(1, kDay);
    add(7, 60 * kSecond);
    add(3, kSecond);
    add(999983, kDay);
    for (const std::uint64_t limit : {667u, 1000u, 1999u, 2000u, 2001u, 3000000u, 1000000007u}) {
      add(limit, kSecond);
    }
    add(2000000000, kSecond);
  }
  return specs;
}

// ceil(units * P / L)
std::int64_t ticks_for(const Spec& spec, std::uint64_t units) {
  return static_cast<std::int64_t>(
      (static_cast<Wide>(units) * static_cast<Wide>(spec.per_us) + spec.limit - 1) / spec.limit);
}

// floor(ticks * L / P)
std::uint64_t units_in(const Spec& spec, std::int64_t ticks) {
  return static_cast<std::uint64_t>(static_cast<Wide>(ticks) * spec.limit /
                                    static_cast<Wide>(spec.per_us));
}

TEST(Rate, OneByOneTheUnitsPassAtTheTicksOfTheExactRatio) {
  for (Spec spec : rates()) {
    // A second unit in the bucket keeps the fraction of a tick that each wait is rounded up by.
    const std::uint64_t units = std::max<std::uint64_t>(1, units_in(spec, 1));
    spec.burst = spec.algorithm == Algorithm::kGcra ? 2 * units - 1 : 2 * units;
    SCOPED_TRACE(to_json(spec));
    Probe probe(spec);
    ASSERT_TRUE(probe.take(kStart, 2 * units));
    std::int64_t at = kStart;
    for (std::uint64_t i = 1; i <= 10000; ++i) {
      const sluice::Decision denied = probe.peek(at, units);
      if (!denied) at += denied.retry_after->count();
      ASSERT_EQ(at - kStart, ticks_for(spec, i * units));
      ASSERT_TRUE(probe.take(at, units));
    }
  }
}

TEST(Rate, ABucketThatNeverFillsGivesExactlyItsBurstAndTheRatio) {
  Dice dice(1);
  for (Spec spec : rates()) {
    if (spec.limit < 4) spec.burst = 9;
    SCOPED_TRACE(to_json(spec));
    Probe probe(spec);
    const std::uint64_t burst = capacity(spec);
    const auto longest = static_cast<std::uint64_t>(ticks_for(spec, burst - 1)) - 1;
    std::int64_t at = kStart;
    std::uint64_t total = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t now = probe.peek(at, 0).remaining;
      ASSERT_TRUE(probe.take(at, now));
      total += now;
      ASSERT_EQ(total, burst + units_in(spec, at - kStart));
      at += static_cast<std::int64_t>(dice.magnitude(longest));
    }
  }
}

}  // namespace
}  // namespace sluice_property::rates_test
