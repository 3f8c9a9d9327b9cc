#include "sluice/limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/limit.h"

namespace sluice::limit_test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMost = 4294967295;
constexpr Algorithm kAllAlgorithms[] = {Algorithm::kFixedWindow,
                                        Algorithm::kSlidingWindowLog,
                                        Algorithm::kSlidingWindowCounter,
                                        Algorithm::kSlidingWindowHybrid,
                                        Algorithm::kLeakyBucket,
                                        Algorithm::kTokenBucket,
                                        Algorithm::kGcra,
                                        Algorithm::kConcurrency};

// A spec that is right for every algorithm.
constexpr LimitSpec spec_of(Algorithm algorithm) {
  return {.algorithm = algorithm, .limit = 10, .per = 1s};
}

std::string error_of(const LimitSpec& spec) {
  const Expected<Limit> limit = Limit::make(spec);
  return limit ? "no error" : limit.error();
}

// --- a limit is a small constant ---

static_assert(sizeof(Limit) == 56);
static_assert(std::is_trivially_copyable_v<Limit>);
static_assert(!std::is_default_constructible_v<Limit>);

constexpr Limit kBuilt = token_bucket(100).per(1s).burst(200);
static_assert(kBuilt.algorithm() == Algorithm::kTokenBucket);
static_assert(kBuilt.limit() == 100 && kBuilt.period() == 1s && kBuilt.capacity() == 200);
static_assert(kBuilt == token_bucket(100).per(1000ms).burst(200));
static_assert(kBuilt != token_bucket(100).per(1s).burst(201));
static_assert(kBuilt != Limit(token_bucket(100).per(1s).burst(200).refilled_at_intervals()));

// --- calendars ---

TEST(Limit, ByCalendarIsAnotherLimitForEachCalendar) {
  const Limit limit = fixed_window(1000).per(calendar_month("Asia/Shanghai", 15));
  EXPECT_EQ(limit.align(), Align::kClock);
  EXPECT_EQ(limit.period(), std::chrono::days{31});
  EXPECT_EQ(limit.calendar()->spec().zone, "Asia/Shanghai");
  const Limit same = fixed_window(1000).per(calendar_month("Asia/Shanghai", 15));
  EXPECT_EQ(limit, same);
  EXPECT_EQ(core::LimitAccess::tag(limit), core::LimitAccess::tag(same));
  const Limit others[] = {fixed_window(1000).per(calendar_month("Asia/Shanghai", 16)),
                          fixed_window(1000).per(calendar_month("Asia/Tokyo", 15)),
                          fixed_window(1000).per(std::chrono::days{31}).aligned_to_clock()};
  for (const Limit& other : others) {
    EXPECT_NE(limit, other);
    EXPECT_NE(core::LimitAccess::tag(limit), core::LimitAccess::tag(other));
  }
  EXPECT_EQ(Limit::make(core::spec_of(limit)).value(), limit);
}

TEST(Limit, ByCalendarIsAFixedWindowWithoutAlign) {
  LimitSpec spec{.algorithm = Algorithm::kTokenBucket,
                 .limit = 10,
                 .calendar = *Calendar::make(calendar_month())};
  EXPECT_EQ(error_of(spec),
            "per month does not apply to token_bucket; it applies to fixed_window and budget");
  spec.algorithm = Algorithm::kFixedWindow;
  EXPECT_EQ(error_of(spec), "no error");
  spec.align = Align::kClock;
  EXPECT_EQ(error_of(spec),
            "align does not apply to per month, whose windows begin at midnight; leave it out");
}

TEST(Limit, ByCalendarOfAnUnknownZoneThrows) {
  EXPECT_THROW(fixed_window(1).per(calendar_day("Mars/Olympus")), std::invalid_argument);
}

// --- builders ---

TEST(Limit, OfPermitsHasALeaseAndAtMost65535Units) {
  constexpr Limit kExports = concurrency(3).lease(30s);
  EXPECT_EQ(kExports.algorithm(), Algorithm::kConcurrency);
  EXPECT_EQ(kExports.capacity(), 3u);
  EXPECT_EQ(kExports.period(), 30s);
  LimitSpec spec{.algorithm = Algorithm::kConcurrency, .limit = 65535, .per = 1ms};
  EXPECT_EQ(error_of(spec), "no error");
  spec.limit = 65536;
  EXPECT_EQ(error_of(spec), "limit 65536 is out of range; it must be 0 to 65535");
  spec.limit = 1;
  spec.per = 367 * 24h;
  EXPECT_EQ(error_of(spec), "lease 367d is out of range; it must be 1ms to 366d");
  spec = {.algorithm = Algorithm::kConcurrency, .limit = 1, .per = 1s, .burst = 1};
  EXPECT_EQ(find_error(spec), LimitError::kOptionDoesNotApply);
}

TEST(Limit, BuildersStateEveryOption) {
  EXPECT_EQ(Limit(token_bucket(1).per(1s).refilled_at_intervals()).refill(), Refill::kInterval);
  EXPECT_EQ(Limit(leaky_bucket(1).per(1s).queueing()).mode(), LeakyMode::kQueue);
  EXPECT_EQ(Limit(fixed_window(1).per(1s).aligned_to_clock()).align(), Align::kClock);
  const Limit counter = sliding_window_counter(1).per(1s).slices(7).counting_oldest_whole();
  EXPECT_EQ(counter.slices(), 7u);
  EXPECT_EQ(counter.weighting(), Weighting::kNone);
  EXPECT_EQ(Limit(sliding_window_hybrid(1).per(1s).slices(9)).slices(), 9u);
  EXPECT_EQ(Limit(gcra(30).per(60s).burst(15)).capacity(), 16u);
}

TEST(Limit, HasALeaseOfWholeMillisecondsUnlessItHasPermits) {
  constexpr Limit kLeased = token_bucket(10).per(1s).burst(20).leased(100ms);
  EXPECT_EQ(kLeased.lease(), 100ms);
  EXPECT_EQ(kLeased.capacity(), 20u);
  EXPECT_EQ(Limit(gcra(1).per(1s)).lease(), 0ms);
  EXPECT_NE(kLeased, Limit(token_bucket(10).per(1s).burst(20)));
  LimitSpec spec{.limit = 1, .per = 1s, .lease = 10s};
  EXPECT_EQ(error_of(spec), "no error");
  spec.lease = 10'001ms;
  EXPECT_EQ(error_of(spec), "lease 10001ms is out of range; it must be 1ms to 10s");
  try {
    static_cast<void>(token_bucket(1).per(1s).leased(0ms));
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "lease 0ms is out of range; it must be 1ms to 10s");
  }
  spec = {.algorithm = Algorithm::kConcurrency, .limit = 1, .per = 1s, .lease = 1s};
  EXPECT_EQ(error_of(spec),
            "a quota lease does not apply to concurrency; it applies to all algorithms but "
            "concurrency and budget");
}

TEST(Limit, BuildersKeepWhatWasSaidBefore) {
  const Limit limit = token_bucket(3).per(7s).burst(11).refilled_at_intervals();
  EXPECT_EQ(limit.limit(), 3u);
  EXPECT_EQ(limit.period(), 7s);
  EXPECT_EQ(limit.capacity(), 11u);
  EXPECT_EQ(limit.refill(), Refill::kInterval);
}

TEST(Limit, BuildersEqualWhatMakeMakes) {
  const auto made = Limit::make({.algorithm = Algorithm::kLeakyBucket,
                                 .limit = 5,
                                 .per = 2s,
                                 .burst = 9,
                                 .mode = LeakyMode::kQueue});
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, leaky_bucket(5).per(2s).burst(9).queueing());
}

TEST(Limit, BuildersThrowTheTextOfExplain) {
  const std::uint64_t run_time_units = kMost + 1;
  try {
    (void)token_bucket(run_time_units).per(1s);
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "limit 4294967296 is out of range; it must be 0 to 4294967295");
  }
}

// --- defaults ---

TEST(Limit, CapacityDefaultsToTheLimitForEveryAlgorithm) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    EXPECT_EQ(Limit::make(spec_of(algorithm))->capacity(), 10u) << to_string(algorithm);
  }
}

TEST(Limit, GcraHoldsOneMoreThanItsBurst) {
  EXPECT_EQ(Limit(gcra(10).per(1s).burst(0)).capacity(), 1u);
  EXPECT_EQ(Limit(gcra(10).per(1s).burst(4)).capacity(), 5u);
  // 2^32 - 2 beyond the first make 2^32 - 1.
  EXPECT_EQ(Limit(gcra(kMost).per(1s).burst(kMost - 1)).capacity(), kMost);
}

TEST(Limit, OtherDefaultsAreTheDocumentedOnes) {
  const Limit window = fixed_window(1).per(1s);
  EXPECT_EQ(window.align(), Align::kFirstRequest);
  EXPECT_EQ(window.slices(), 1u);
  const Limit counter = sliding_window_counter(1).per(1s);
  EXPECT_EQ(counter.slices(), 10u);
  EXPECT_EQ(counter.weighting(), Weighting::kLinear);
  EXPECT_EQ(Limit(sliding_window_hybrid(1).per(1s)).slices(), 10u);
  EXPECT_EQ(Limit(leaky_bucket(1).per(1s)).mode(), LeakyMode::kMeter);
  EXPECT_EQ(Limit(token_bucket(1).per(1s)).refill(), Refill::kContinuous);
}

TEST(Limit, LimitOfZeroHoldsNothingWhateverItsBurst) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    LimitSpec spec = spec_of(algorithm);
    spec.limit = 0;
    const auto limit = Limit::make(spec);
    ASSERT_TRUE(limit) << to_string(algorithm);
    EXPECT_EQ(limit->capacity(), 0u);
    EXPECT_EQ(core::LimitAccess::rate(*limit).units, 0u);
    EXPECT_EQ(core::LimitAccess::rate(*limit).ticks, 1u);
  }
  EXPECT_EQ(Limit(token_bucket(0).per(1s).burst(5)).capacity(), 0u);
  EXPECT_EQ(Limit(gcra(0).per(1s).burst(5)).capacity(), 0u);
}

// --- the rate ---

TEST(Limit, RateIsInLowestTerms) {
  struct Case {
    std::uint64_t limit;
    Duration per;
    std::uint32_t units;
    std::uint64_t ticks;
  };
  const Case cases[] = {
      {3, 1s, 3, 1000000},                 // 3 and 2^6·5^6
      {7, 1min, 7, 60000000},              // 7 and 2^8·3·5^7
      {999983, 24h, 999983, 86400000000},  // a prime
      {2000000000, 1s, 2000, 1},           // 2·10^9 a second are 2000 a tick
      {kMost, 1ms, 858993459, 200},        // 2^32 - 1 = 5·858993459; 1000 = 5·200
      {1, kMaxPeriod, 1, 31622400000000},  // 366 days
      {31622400, kMaxPeriod, 1, 1000000},  // one a second
      {1000, 1ms, 1, 1},
  };
  for (const Case& c : cases) {
    const Limit limit = fixed_window(c.limit).per(c.per);
    EXPECT_EQ(core::LimitAccess::rate(limit).units, c.units) << c.limit;
    EXPECT_EQ(core::LimitAccess::rate(limit).ticks, c.ticks) << c.limit;
  }
}

// --- ranges and what they say ---

TEST(Limit, AcceptsTheEndsOfEveryRange) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    for (const Duration per : {kMinPeriod, kMaxPeriod}) {
      for (const std::uint64_t limit :
           {std::uint64_t{0}, std::uint64_t{1}, detail::most_units(algorithm)}) {
        EXPECT_EQ(error_of({.algorithm = algorithm, .limit = limit, .per = per}), "no error");
      }
    }
  }
  EXPECT_EQ(error_of({.limit = kMost, .per = 1ms, .burst = kMost}), "no error");
  EXPECT_EQ(error_of({.limit = 1, .per = 1ms, .burst = 1}), "no error");
  for (const std::uint64_t slices : {1u, 1000u}) {
    EXPECT_EQ(error_of({.algorithm = Algorithm::kSlidingWindowCounter,
                        .limit = 1,
                        .per = 1ms,
                        .slices = slices}),
              "no error");
  }
}

TEST(Limit, RefusesALimitBeyondItsRange) {
  EXPECT_EQ(error_of({.limit = kMost + 1, .per = 1s}),
            "limit 4294967296 is out of range; it must be 0 to 4294967295");
  EXPECT_EQ(error_of({.limit = ~std::uint64_t{0}, .per = 1s}),
            "limit 18446744073709551615 is out of range; it must be 0 to 4294967295");
}

TEST(Limit, RefusesAPeriodBeyondItsRange) {
  EXPECT_EQ(error_of({.limit = 1, .per = 0s}), "per 0ms is out of range; it must be 1ms to 366d");
  EXPECT_EQ(error_of({.limit = 1, .per = Duration{999}}),
            "per 999us is out of range; it must be 1ms to 366d");
  EXPECT_EQ(error_of({.limit = 1, .per = -1s}), "per -1s is out of range; it must be 1ms to 366d");
  EXPECT_EQ(error_of({.limit = 1, .per = kMaxPeriod + 1ms}),
            "per 31622400001ms is out of range; it must be 1ms to 366d");
  EXPECT_NE(error_of({.limit = 1, .per = Duration::max()}), "no error");
  EXPECT_NE(error_of({.limit = 1, .per = Duration::min()}), "no error");
}

TEST(Limit, RefusesABurstBeyondItsRange) {
  EXPECT_EQ(error_of({.limit = 1, .per = 1s, .burst = 0}),
            "burst 0 is out of range; it must be 1 to 4294967295");
  EXPECT_EQ(error_of({.limit = 1, .per = 1s, .burst = kMost + 1}),
            "burst 4294967296 is out of range; it must be 1 to 4294967295");
  EXPECT_EQ(error_of({.algorithm = Algorithm::kGcra, .limit = 1, .per = 1s, .burst = kMost}),
            "burst 4294967295 is out of range; it must be 0 to 4294967294");
  // Also where a limit of 0 would not use it.
  EXPECT_EQ(error_of({.limit = 0, .per = 1s, .burst = 0}),
            "burst 0 is out of range; it must be 1 to 4294967295");
}

TEST(Limit, RefusesSlicesBeyondTheirRange) {
  LimitSpec spec = spec_of(Algorithm::kSlidingWindowHybrid);
  spec.slices = 0;
  EXPECT_EQ(error_of(spec), "slices 0 is out of range; it must be 1 to 1000");
  spec.slices = 1001;
  EXPECT_EQ(error_of(spec), "slices 1001 is out of range; it must be 1 to 1000");
}

TEST(Limit, RefusesEveryOptionThatDoesNotApply) {
  LimitSpec spec = spec_of(Algorithm::kFixedWindow);
  spec.burst = 5;
  EXPECT_EQ(
      error_of(spec),
      "burst does not apply to fixed_window; it applies to leaky_bucket, token_bucket and gcra");
  spec = spec_of(Algorithm::kGcra);
  spec.align = Align::kClock;
  EXPECT_EQ(error_of(spec), "align does not apply to gcra; it applies to fixed_window");
  spec = spec_of(Algorithm::kSlidingWindowLog);
  spec.slices = 5;
  EXPECT_EQ(error_of(spec),
            "slices does not apply to sliding_window_log; it applies to sliding_window_counter and "
            "sliding_window_hybrid");
  spec = spec_of(Algorithm::kSlidingWindowHybrid);
  spec.weighting = Weighting::kNone;
  EXPECT_EQ(
      error_of(spec),
      "weighting does not apply to sliding_window_hybrid; it applies to sliding_window_counter");
  spec = spec_of(Algorithm::kTokenBucket);
  spec.mode = LeakyMode::kMeter;
  EXPECT_EQ(error_of(spec), "mode does not apply to token_bucket; it applies to leaky_bucket");
  spec = spec_of(Algorithm::kLeakyBucket);
  spec.refill = Refill::kContinuous;
  EXPECT_EQ(error_of(spec), "refill does not apply to leaky_bucket; it applies to token_bucket");
}

TEST(Limit, AcceptsEachOptionOnlyWhereItApplies) {
  struct Option {
    void (*set)(LimitSpec&);
    std::set<Algorithm> applies_to;
  };
  using enum Algorithm;
  const Option options[] = {
      {[](LimitSpec& s) { s.burst = 5; }, {kTokenBucket, kLeakyBucket, kGcra}},
      {[](LimitSpec& s) { s.align = Align::kFirstRequest; }, {kFixedWindow}},
      {[](LimitSpec& s) { s.slices = 5; }, {kSlidingWindowCounter, kSlidingWindowHybrid}},
      {[](LimitSpec& s) { s.weighting = Weighting::kLinear; }, {kSlidingWindowCounter}},
      {[](LimitSpec& s) { s.mode = LeakyMode::kMeter; }, {kLeakyBucket}},
      {[](LimitSpec& s) { s.refill = Refill::kContinuous; }, {kTokenBucket}},
  };
  for (const Option& option : options) {
    for (const Algorithm algorithm : kAllAlgorithms) {
      LimitSpec spec = spec_of(algorithm);
      option.set(spec);
      EXPECT_EQ(Limit::make(spec).has_value(), option.applies_to.contains(algorithm))
          << error_of(spec);
    }
  }
}

TEST(Limit, RefusesWhatRefillsInOver142Years) {
  // 2^52 µs are 142 years and 261 days: 142 units of one a 366 days, as 142·31622400 s =
  // 4490380800 s < 2^52 µs = 4503599627.37 s, and 143 would take 4522003200 s.
  EXPECT_EQ(error_of({.limit = 1, .per = kMaxPeriod, .burst = 142}), "no error");
  EXPECT_EQ(error_of({.limit = 1, .per = kMaxPeriod, .burst = 143}),
            "a burst of 143 at 1 per 366d would need over 142 years to refill; lower burst, raise "
            "limit or shorten per");
  EXPECT_EQ(error_of({.algorithm = Algorithm::kGcra, .limit = 1, .per = kMaxPeriod, .burst = 141}),
            "no error");
  EXPECT_EQ(
      find_error({.algorithm = Algorithm::kGcra, .limit = 1, .per = kMaxPeriod, .burst = 142}),
      LimitError::kRefillsTooSlowly);
}

TEST(Limit, RefillsExactlyWithinTheLongestWait) {
  // 2^32 - 1 units at 1 a tick and 2^20 ticks a unit: 2^52 - 2^20 ticks.
  const Duration unit{1 << 20};
  EXPECT_EQ(error_of({.limit = 1, .per = unit, .burst = kMost}), "no error");
  // One tick a unit more: (2^32 - 1)(2^20 + 1) > 2^52.
  EXPECT_EQ(find_error({.limit = 1, .per = unit + Duration{1}, .burst = kMost}),
            LimitError::kRefillsTooSlowly);
}

TEST(Limit, IntervalsOfRefillCountWhole) {
  // 3 a 366 days: 142 intervals fit into the longest wait, so 426 units do and 427 do not; evenly
  // refilled, 427 units take 142 1/3 periods, which fit.
  LimitSpec spec{.limit = 3, .per = kMaxPeriod, .burst = 427};
  EXPECT_EQ(find_error(spec), LimitError::kNone);
  spec.refill = Refill::kInterval;
  EXPECT_EQ(find_error(spec), LimitError::kRefillsTooSlowly);
  spec.burst = 426;
  EXPECT_EQ(find_error(spec), LimitError::kNone);
}

TEST(Limit, SaysNothingIsWrongWhereNothingIs) {
  EXPECT_EQ(explain(LimitError::kNone, spec_of(Algorithm::kGcra)), "nothing is wrong");
}

// --- names ---

TEST(Limit, AlgorithmNamesReadBack) {
  std::set<std::string_view> names;
  for (const Algorithm algorithm : kAllAlgorithms) {
    EXPECT_EQ(algorithm_from(to_string(algorithm)), algorithm);
    names.insert(to_string(algorithm));
  }
  EXPECT_EQ(names,
            (std::set<std::string_view>{"fixed_window", "sliding_window_log",
                                        "sliding_window_counter", "sliding_window_hybrid",
                                        "leaky_bucket", "token_bucket", "gcra", "concurrency"}));
}

TEST(Limit, AlgorithmNamesAreExact) {
  for (const std::string_view name : {"", "Gcra", "gcra ", "tokenbucket", "token-bucket"}) {
    EXPECT_EQ(algorithm_from(name), std::nullopt) << name;
  }
}

// --- the tag ---

std::uint32_t tag_of(const Limit& limit) { return core::LimitAccess::tag(limit); }

TEST(Limit, TagChangesWithEachNumberAndOnlyThem) {
  const Limit base = token_bucket(10).per(1s).burst(20);
  EXPECT_EQ(tag_of(base), tag_of(token_bucket(10).per(1000ms).burst(20)));
  EXPECT_NE(tag_of(base), tag_of(token_bucket(11).per(1s).burst(20)));
  EXPECT_NE(tag_of(base), tag_of(token_bucket(10).per(2s).burst(20)));
  EXPECT_NE(tag_of(base), tag_of(token_bucket(10).per(1s).burst(21)));
  EXPECT_NE(tag_of(base), tag_of(token_bucket(10).per(1s).burst(20).refilled_at_intervals()));
  // The same rate in other words is another limit.
  EXPECT_NE(tag_of(base), tag_of(token_bucket(20).per(2s).burst(20)));
  EXPECT_EQ(tag_of(leaky_bucket(10).per(1s)), tag_of(leaky_bucket(10).per(1s).queueing()));
  EXPECT_EQ(tag_of(base), tag_of(token_bucket(10).per(1s).burst(20).leased(1s)));
}

TEST(Limit, TagsFitIn28BitsAndSpread) {
  std::set<std::uint32_t> tags;
  for (std::uint64_t units = 1; units <= 1000; ++units) {
    const Limit limit = token_bucket(units).per(1s);
    EXPECT_LT(tag_of(limit), 1u << 28);
    tags.insert(tag_of(limit));
  }
  EXPECT_EQ(tags.size(), 1000u);
}

}  // namespace
}  // namespace sluice::limit_test
