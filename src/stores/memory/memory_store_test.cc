#include "sluice/memory_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "limiter/new_key_limit.h"
#include "sluice/limiter.h"
#include "sluice/testing/manual_clock.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMost = 4294967295;

constexpr Instant at(Duration since_epoch) { return Instant{since_epoch}; }

const std::vector<Limit>& one_of_each() {
  static const std::vector<Limit> limits = {
      fixed_window(5).per(1h),
      sliding_window_log(5).per(1h),
      sliding_window_counter(5).per(1h),
      sliding_window_hybrid(5).per(1h),
      leaky_bucket(5).per(1h),
      token_bucket(5).per(1h),
      gcra(5).per(1h),
      token_bucket(5).per(1h).refilled_at_intervals(),
  };
  return limits;
}

// A request, and the answers to its charges.
struct Request {
  std::vector<Charge> charges;
  std::vector<Decision> each = {};

  Decision apply(Store& store, Verb verb, Instant now) {
    each.assign(charges.size(), Decision{});
    return store.apply(verb, charges, now, each);
  }
  Decision take(Store& store, Instant now = at(0s)) { return apply(store, Verb::kTake, now); }
};

// --- new counters ---

TEST(MemoryStore, CreatesOnlyTheCountersThatNewKeyLimitAllows) {
  for (const Limit& limit : one_of_each()) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    MemoryStore store;
    NewKeyLimit new_keys(2);
    const auto charge = [&](std::string_view key) {
      return Charge{.key = key, .limit = limit, .rule = {.new_keys = &new_keys}};
    };
    const auto take = [&](std::string_view key, Duration when) {
      return store.apply_one(Verb::kTake, charge(key), at(when)).reason;
    };
    EXPECT_EQ(take("a", 0s), Reason::kOk);
    EXPECT_EQ(take("b", 0s), Reason::kOk);
    EXPECT_EQ(take("c", 500ms), Reason::kStoreFull);
    EXPECT_EQ(take("a", 500ms), Reason::kOk) << "it exists";
    EXPECT_EQ(store.apply_one(Verb::kPeek, charge("c"), at(500ms)).reason, Reason::kOk);
    Request several{{charge("b"), charge("c"), {"other rule", limit}}};
    EXPECT_EQ(several.take(store, at(600ms)), Decision::refused(Reason::kStoreFull));
    EXPECT_EQ(several.each[0].reason, Reason::kOk);
    EXPECT_EQ(several.each[1].reason, Reason::kStoreFull);
    EXPECT_EQ(several.each[2].reason, Reason::kOk);
    EXPECT_EQ(store.stats().keys, 2u) << "nothing was taken";
    EXPECT_EQ(several.take(store, at(1s)).reason, Reason::kOk) << "in the next second";
    EXPECT_EQ(take("d", 1s), Reason::kOk);
    EXPECT_EQ(take("e", 1s), Reason::kStoreFull) << "c and d are new in this second";
  }
}

TEST(MemoryStore, ChargesOfWorkCreateOnlyTheCountersThatNewKeyLimitAllows) {
  for (const Limit& limit : one_of_each()) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    MemoryStore store;
    NewKeyLimit new_keys(10);
    const auto charge = [&](int number) {
      const std::string key = std::to_string(number);
      const Charge one{.key = key, .limit = limit, .rule = {.new_keys = &new_keys}};
      return store.apply_one(Verb::kCharge, one, at(0s)).reason;
    };
    for (int i = 0; i < 500; ++i) EXPECT_EQ(charge(i), i < 10 ? Reason::kOk : Reason::kStoreFull);
    EXPECT_EQ(store.stats().keys, 10u);
    EXPECT_EQ(charge(0), Reason::kOk) << "it exists";
  }
}

// --- one charge ---

TEST(MemoryStore, CountsWithEveryAlgorithm) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    Limiter limiter(store);
    for (std::uint32_t i = 0; i < 5; ++i) {
      const Decision d = limiter.try_acquire("k", limit, 1, at(0s));
      EXPECT_TRUE(d.allowed());
      EXPECT_EQ(d.reason, Reason::kOk);
      EXPECT_EQ(d.capacity, 5u);
      EXPECT_EQ(d.remaining, 4 - i) << to_string(limit.algorithm());
      EXPECT_FALSE(d.retry_after.has_value());
    }
    const Decision denied = limiter.try_acquire("k", limit, 1, at(0s));
    EXPECT_FALSE(denied.allowed());
    EXPECT_EQ(denied.reason, Reason::kLimited);
    ASSERT_TRUE(denied.retry_after.has_value());
    EXPECT_FALSE(limiter.peek("k", limit, 1, at(*denied.retry_after) - Duration{1}).allowed());
    EXPECT_TRUE(limiter.peek("k", limit, 1, at(*denied.retry_after)).allowed());
    EXPECT_EQ(limiter.try_acquire("k", limit, 6, at(0s)).reason, Reason::kNever);
    EXPECT_FALSE(limiter.try_acquire("k", limit, 6, at(0s)).retry_after.has_value());
  }
}

TEST(MemoryStore, HasACounterForEachAlgorithmOfAKey) {
  MemoryStore store;
  Limiter limiter(store);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(limiter.try_acquire("k", one_of_each()[i], 5, at(0s)).remaining, 0u);
  }
  EXPECT_EQ(store.stats().keys, 7u);
}

TEST(MemoryStore, PeekAnswersAsTakeWouldAndChangesNothing) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    Limiter limiter(store);
    limiter.try_acquire("k", limit, 2, at(0s)).allowed();
    for (const std::uint64_t cost : {0u, 1u, 3u, 4u, 6u}) {
      const Decision peeked = limiter.peek("k", limit, cost, at(10s));
      EXPECT_EQ(limiter.peek("k", limit, cost, at(10s)), peeked);
      MemoryStore other;
      Limiter twin(other);
      twin.try_acquire("k", limit, 2, at(0s)).allowed();
      EXPECT_EQ(twin.try_acquire("k", limit, cost, at(10s)), peeked)
          << to_string(limit.algorithm());
    }
  }
}

TEST(MemoryStore, CreatesNoCounterForAPeekOrADenial) {
  MemoryStore store;
  Limiter limiter(store);
  for (const Limit& limit : one_of_each()) {
    EXPECT_TRUE(limiter.peek("k", limit, 5, at(0s)).allowed());
    EXPECT_FALSE(limiter.try_acquire("k", limit, 6, at(0s)).allowed());
    EXPECT_TRUE(limiter.try_acquire("k", limit, 0, at(0s)).allowed());
    limiter.refund("k", limit, 5, at(0s));
  }
  EXPECT_EQ(store.stats().keys, 0u);
  EXPECT_EQ(store.stats().log_bytes, 0u);
}

TEST(MemoryStore, RefundNeverGivesMoreThanWasTaken) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    Limiter limiter(store);
    limiter.try_acquire("k", limit, 3, at(0s)).allowed();
    EXPECT_EQ(limiter.refund("k", limit, 1, at(0s)).remaining, 3u);
    const Decision full = limiter.refund("k", limit, kMost, at(0s));
    EXPECT_TRUE(full.allowed());
    EXPECT_EQ(full.remaining, 5u) << to_string(limit.algorithm());
    EXPECT_EQ(full.reset_after, 0s);
    EXPECT_EQ(limiter.try_acquire("k", limit, 5, at(0s)).remaining, 0u);
  }
}

TEST(MemoryStore, ResetForgetsACounter) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    Limiter limiter(store);
    limiter.try_acquire("k", limit, 5, at(100s)).allowed();
    const Decision reset = limiter.reset("k", limit);
    EXPECT_TRUE(reset.allowed());
    EXPECT_EQ(reset.remaining, 5u);
    EXPECT_EQ(store.stats().keys, 0u);
    EXPECT_EQ(store.stats().log_bytes, 0u);
    // The instant of its last change too.
    EXPECT_TRUE(limiter.try_acquire("k", limit, 5, at(0s)).allowed());
  }
}

TEST(MemoryStore, LimitOfZeroKeepsTheCounterOfTheKey) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    Limiter limiter(store);
    const Limit ban = *Limit::make({.algorithm = limit.algorithm(), .limit = 0, .per = 1h});
    limiter.try_acquire("k", limit, 3, at(0s)).allowed();
    const Decision kept = limiter.peek("k", limit, 0, at(10s));
    EXPECT_EQ(limiter.try_acquire("k", ban, 1, at(10s)).reason, Reason::kNever);
    const Decision refunded = limiter.refund("k", ban, 2, at(10s));
    EXPECT_TRUE(refunded.allowed());
    EXPECT_EQ(refunded.remaining, 0u);
    EXPECT_EQ(limiter.peek("k", limit, 0, at(10s)), kept) << to_string(limit.algorithm());
  }
}

TEST(MemoryStore, UsesItsClockIfNoTimestampIsGiven) {
  testing::ManualClock clock;
  MemoryStore store({}, clock);
  Limiter limiter(store);
  const Limit limit = token_bucket(1).per(1s);
  EXPECT_TRUE(limiter.try_acquire("k", limit).allowed());
  EXPECT_FALSE(limiter.try_acquire("k", limit).allowed());
  clock.advance(1s);
  EXPECT_TRUE(limiter.try_acquire("k", limit).allowed());
}

TEST(MemoryStore, AnswersOnlyWithinTheRangeOfInstants) {
  MemoryStore store;
  Limiter limiter(store);
  for (const Limit& limit : one_of_each()) {
    EXPECT_EQ(limiter.try_acquire("a", limit, 1, kFirstInstant).reason, Reason::kOk);
    EXPECT_EQ(limiter.try_acquire("b", limit, 1, kLastInstant).reason, Reason::kOk);
    EXPECT_EQ(limiter.try_acquire("b", limit, 5, kLastInstant).reason, Reason::kLimited);
    EXPECT_EQ(limiter.try_acquire("c", limit, 1, kFirstInstant - Duration{1}).reason,
              Reason::kInvalid);
    EXPECT_EQ(limiter.try_acquire("c", limit, 1, kLastInstant + Duration{1}).reason,
              Reason::kInvalid);
    EXPECT_EQ(limiter.try_acquire("c", limit, 1, Instant::max()).reason, Reason::kInvalid);
    EXPECT_EQ(limiter.try_acquire("c", limit, 1, Instant::min()).reason, Reason::kInvalid);
  }
}

TEST(MemoryStore, RequestsAtTheLastInstantKeepPinnedCounters) {
  MemoryStore store({.max_keys = 128, .shards = 1});
  Limiter limiter(store);
  for (int i = 0; i < 1000; ++i) {
    Request request;
    std::vector<std::string> keys;
    for (int k = 0; k < 8; ++k) keys.push_back(std::to_string(i * 8 + k));
    for (int k = 0; k < 8; ++k) {
      const auto kind = static_cast<std::size_t>(k);
      request.charges.push_back({keys[kind], one_of_each()[kind], 1});
    }
    ASSERT_EQ(request.take(store, kLastInstant).reason, Reason::kOk);
  }
  EXPECT_LE(store.stats().keys, 128u);
}

// --- keys ---

TEST(MemoryStore, AcceptsAnyBytesAsAKey) {
  MemoryStore store;
  Limiter limiter(store);
  const Limit limit = token_bucket(1).per(1h);
  const std::string megabyte(1 << 20, 'x');
  const std::vector<std::string> keys = {
      "",       std::string(1, '\0'), std::string(2, '\0'), std::string("a\0b", 3), "a", "\xff\xfe",
      megabyte, megabyte + "y"};
  for (const std::string& key : keys) {
    EXPECT_TRUE(limiter.try_acquire(key, limit, 1, at(0s)).allowed()) << key.size();
    EXPECT_FALSE(limiter.try_acquire(key, limit, 1, at(0s)).allowed()) << key.size();
  }
  EXPECT_EQ(store.stats().keys, keys.size());
  EXPECT_FALSE(limiter.try_acquire(std::string_view(), limit, 1, at(0s)).allowed());
}

// --- several charges ---

TEST(MemoryStore, DeniedRequestTakesNothing) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    Limiter limiter(store);
    const Limit narrow = *Limit::make({.algorithm = limit.algorithm(), .limit = 1, .per = 1h});
    Request request{{{"wide", limit, 2}, {"narrow", narrow, 1}}};
    EXPECT_TRUE(request.take(store).allowed());
    const Decision wide = limiter.peek("wide", limit, 0, at(0s));
    const Decision denied = request.take(store);
    EXPECT_FALSE(denied.allowed());
    EXPECT_EQ(denied.retry_after, request.each[1].retry_after);
    EXPECT_TRUE(request.each[0].allowed());
    EXPECT_EQ(request.each[0], wide);  // the numbers as they stand
    EXPECT_EQ(limiter.peek("wide", limit, 0, at(0s)), wide) << to_string(limit.algorithm());
  }
}

TEST(MemoryStore, TakesSixtyFourChargesAtOnceOrNone) {
  MemoryStore store({.max_keys = 128});
  std::vector<std::string> keys;
  for (int i = 0; i < 64; ++i) keys.push_back(std::to_string(i));
  Request request;
  for (std::size_t i = 0; i < 64; ++i) {
    request.charges.push_back({keys[i], one_of_each()[i % 7], 1});
  }
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(request.take(store).allowed());
    for (const Decision& d : request.each) EXPECT_EQ(d.remaining, 4 - i);
  }
  EXPECT_FALSE(request.take(store).allowed());
  EXPECT_EQ(store.stats().keys, 64u);
}

TEST(MemoryStore, ChargesOnOneCounterCountTogether) {
  MemoryStore store;
  Limiter limiter(store);
  const Limit limit = token_bucket(10).per(1h);
  Request request{{{"k", limit, 4}, {"other", limit, 1}, {"k", limit, 5}}};
  EXPECT_TRUE(request.take(store).allowed());
  EXPECT_EQ(request.each[0].remaining, 1u);
  EXPECT_EQ(request.each[2], request.each[0]);
  request.charges[1].cost = 0;
  EXPECT_FALSE(request.take(store).allowed());
  EXPECT_FALSE(request.each[0].allowed());
  EXPECT_EQ(request.each[2], request.each[0]);
  request.charges = {{"fresh", limit, 6}, {"fresh", limit, 5}};
  EXPECT_EQ(request.take(store).reason, Reason::kNever);
  EXPECT_EQ(request.each[0].reason, Reason::kNever);
  request.charges = {{"fresh", limit, ~std::uint64_t{0}}, {"fresh", limit, 2}};
  EXPECT_EQ(request.take(store).reason, Reason::kNever);  // and does not wrap around to 1
  EXPECT_EQ(limiter.peek("fresh", limit, 0, at(0s)).remaining, 10u);
}

TEST(MemoryStore, ReportsTheLongestDelayOfAQueue) {
  MemoryStore store;
  const Limit fast = leaky_bucket(10).per(1s).queueing();
  const Limit slow = leaky_bucket(1).per(1s).burst(5).queueing();
  Request request{{{"fast", fast, 1}, {"slow", slow, 1}}};
  EXPECT_EQ(request.take(store).delay, Duration{0});
  const Decision second = request.take(store);
  EXPECT_EQ(second.delay, Duration{1s});
  EXPECT_EQ(request.each[0].delay, Duration{100ms});
  request.charges[1].cost = 4;
  const Decision denied = request.take(store);
  EXPECT_FALSE(denied.allowed());
  EXPECT_FALSE(denied.delay.has_value());
  EXPECT_FALSE(request.each[0].delay.has_value());
}

TEST(MemoryStore, RefundsAndResetsAllCharges) {
  MemoryStore store;
  Request request;
  for (std::size_t i = 0; i < 7; ++i) request.charges.push_back({"k", one_of_each()[i], 3});
  EXPECT_TRUE(request.take(store).allowed());
  EXPECT_TRUE(request.apply(store, Verb::kRefund, at(0s)).allowed());
  for (const Decision& d : request.each) EXPECT_EQ(d.remaining, 5u);
  EXPECT_TRUE(request.take(store).allowed());
  EXPECT_TRUE(request.apply(store, Verb::kReset, at(0s)).allowed());
  for (const Decision& d : request.each) EXPECT_EQ(d.remaining, 5u);
  EXPECT_EQ(store.stats().keys, 0u);
}

TEST(MemoryStore, RefusesInvalidRequests) {
  MemoryStore store;
  const Limit limit = token_bucket(10).per(1h);
  Request none;
  EXPECT_EQ(none.take(store).reason, Reason::kInvalid);
  Request many;
  for (int i = 0; i < 65; ++i) many.charges.push_back({"k", limit, 1});
  EXPECT_EQ(many.take(store).reason, Reason::kInvalid);
  for (const Decision& d : many.each) EXPECT_EQ(d.reason, Reason::kInvalid);
  std::vector<Decision> too_few(1);
  const std::vector<Charge> two = {{"a", limit}, {"b", limit}};
  EXPECT_EQ(store.apply(Verb::kTake, two, at(0s), too_few).reason, Reason::kInvalid);
  EXPECT_EQ(store.apply(Verb::kTake, two, at(0s), {}).reason, Reason::kInvalid);
  EXPECT_EQ(store.stats().keys, 0u);
}

TEST(MemoryStore, RefusesOneCounterUnderTwoLimits) {
  MemoryStore store;
  for (const Limit& limit : {Limit(token_bucket(11).per(1h)), Limit(token_bucket(10).per(2h)),
                             Limit(token_bucket(10).per(1h).burst(9)),
                             Limit(token_bucket(10).per(1h).refilled_at_intervals())}) {
    Request request{{{"k", token_bucket(10).per(1h), 1}, {"other", limit, 1}, {"k", limit, 1}}};
    EXPECT_EQ(request.take(store).reason, Reason::kInvalid);
    for (const Decision& d : request.each) EXPECT_EQ(d.reason, Reason::kInvalid);
  }
  EXPECT_EQ(store.stats().keys, 0u);
}

// --- changes of numbers that move a window to another piece of memory ---

TEST(MemoryStore, RefundsUnitsFromBeforeAChangeOfSlices) {
  MemoryStore store;
  Limiter limiter(store);
  limiter.try_acquire("k", sliding_window_counter(10).per(1h).slices(4), 6, at(0s)).allowed();
  const Limit finer = sliding_window_counter(10).per(2h).slices(100);
  EXPECT_EQ(limiter.peek("k", finer, 0, at(0s)).remaining, 4u);
  EXPECT_EQ(limiter.refund("k", finer, 2, at(0s)).remaining, 6u);
  EXPECT_EQ(limiter.try_acquire("k", finer, 6, at(0s)).remaining, 0u);
  EXPECT_EQ(store.stats().log_bytes, 20u + 101 * 4);
}

// --- bounds ---

TEST(MemoryStore, NeverContainsMoreThanMaxKeys) {
  for (const std::size_t max_keys : {128u, 1000u}) {
    for (const std::size_t shards : {0u, 1u, 3u, 16u, 100000u}) {
      MemoryStore store({.max_keys = max_keys, .shards = shards});
      Limiter limiter(store);
      for (std::size_t i = 0; i < 10 * max_keys; ++i) {
        const Limit& limit = one_of_each()[i % 8];
        ASSERT_TRUE(limiter.try_acquire(std::to_string(i), limit, 1, at(0s)).allowed());
        if (i % 997 == 0) {
          ASSERT_LE(store.stats().keys, max_keys);
        }
      }
      const MemoryStoreStats stats = store.stats();
      EXPECT_LE(stats.keys, max_keys) << shards;
      EXPECT_GE(stats.keys, max_keys * 9 / 10) << shards;
      EXPECT_EQ(stats.keys + stats.evictions, 10 * max_keys);
      EXPECT_EQ(stats.swept, 0u);
    }
  }
}

TEST(MemoryStore, RaisesItsBoundsToTheirMinima) {
  MemoryStore store({.max_keys = 0, .max_log_bytes = 0, .shards = 0});
  Limiter limiter(store);
  for (int i = 0; i < 1000; ++i) {
    const Limit& limit = one_of_each()[static_cast<std::size_t>(i % 8)];
    ASSERT_TRUE(limiter.try_acquire(std::to_string(i), limit, 1, at(0s)).allowed());
  }
  EXPECT_LE(store.stats().keys, 128u);
  EXPECT_LE(store.stats().log_bytes, 4096u);
  EXPECT_GT(store.stats().log_bytes, 0u);
}

TEST(MemoryStore, DropsUntouchedCountersBeforeItEvicts) {
  MemoryStore store({.max_keys = 1024, .shards = 1});
  Limiter limiter(store);
  for (int i = 0; i < 10000; ++i) {
    const Instant now = at(i * 10ms);  // each is untouched after 1 s, so about 200 are live
    const Limit limit = sliding_window_counter(5).per(1s).slices(1);
    ASSERT_TRUE(limiter.try_acquire(std::to_string(i), limit, 1, now).allowed());
  }
  EXPECT_EQ(store.stats().evictions, 0u);
  EXPECT_GE(store.stats().swept, 9000u);
}

TEST(MemoryStore, WindowsStayWithinMaxLogBytes) {
  constexpr std::size_t kBytes = 100000;
  MemoryStore store({.max_log_bytes = kBytes, .shards = 4});
  Limiter limiter(store);
  const std::vector<Limit> windows = {sliding_window_log(50).per(1h),
                                      sliding_window_counter(50).per(1h).slices(50),
                                      sliding_window_hybrid(50).per(1h)};
  for (int i = 0; i < 60000; ++i) {
    const Limit& limit = windows[static_cast<std::size_t>(i % 3)];
    const std::string key = std::to_string(i / 60);
    const Decision d = limiter.try_acquire(key, limit, 1, at(i * 1ms));
    ASSERT_NE(d.reason, Reason::kStoreError) << i;
    if (i % 101 == 0) {
      ASSERT_LE(store.stats().log_bytes, kBytes);
    }
  }
  EXPECT_GT(store.stats().evictions, 0u);
  EXPECT_GT(store.stats().log_bytes, kBytes / 2);
}

// Takes units at random instants of a window that moves on. Checks each decision against all units
// that were admitted: never more than the limit in a window, and no denial that a window longer by
// `slice` would not explain. Returns the number of denials.
int check_merged_log(Limiter& limiter, const Limit& limit, Duration slice, int takes) {
  std::mt19937_64 random(3);
  std::deque<std::pair<Instant, std::uint64_t>> admitted;
  const auto units_since = [&](Instant since) {
    std::uint64_t units = 0;
    for (const auto& [when, cost] : admitted) units += when > since ? cost : 0;
    return units;
  };
  int denials = 0;
  Instant now = at(0s);
  for (int i = 0; i < takes; ++i) {
    now += Duration(random() % 2000);
    const std::uint64_t cost = 1 + random() % 3;
    const Decision d = limiter.try_acquire("log", limit, cost, now);
    if (d.allowed()) {
      admitted.emplace_back(now, cost);
      EXPECT_LE(units_since(now - limit.period()), limit.limit()) << i;
    } else {
      ++denials;
      EXPECT_EQ(d.reason, Reason::kLimited) << i;
      EXPECT_GT(units_since(now - limit.period() - slice) + cost, limit.limit()) << i;
    }
    while (!admitted.empty() && admitted.front().first < now - 2 * limit.period()) {
      admitted.pop_front();
    }
  }
  return denials;
}

TEST(MemoryStore, MergesALogThatDoesNotFitAndIsNeverLooser) {
  MemoryStore store({.max_log_bytes = 4096, .shards = 1});
  Limiter limiter(store);
  // The log has room for over 64 entries, so a slice is at most a 16th of a period.
  const Limit limit = sliding_window_log(2000).per(1s);
  EXPECT_GT(check_merged_log(limiter, limit, 62500us, 8000), 100);
  EXPECT_GT(store.stats().merged_logs, 10u);
  EXPECT_LE(store.stats().log_bytes, 4096u);
}

TEST(MemoryStore, MergedLogStillCountsAllItsUnits) {
  MemoryStore store({.max_log_bytes = 4096, .shards = 1});
  Limiter limiter(store);
  const Limit limit = sliding_window_log(1000000).per(1h);
  for (std::uint32_t i = 1; i <= 10000; ++i) {
    const Decision d = limiter.try_acquire("log", limit, 1, at(i * 1ms));
    ASSERT_TRUE(d.allowed());
    ASSERT_EQ(d.remaining, 1000000 - i);
  }
  EXPECT_EQ(limiter.refund("log", limit, 10, at(10s)).remaining, 1000000u - 9990);
  EXPECT_EQ(limiter.peek("log", limit, 0, at(1h + 10s)).remaining, 1000000u);
}

TEST(MemoryStore, LogIsMergedInsteadOfEvictingManyOthers) {
  MemoryStore store({.max_log_bytes = std::size_t{64} << 10, .shards = 1});
  Limiter limiter(store);
  const Limit small = sliding_window_log(3).per(1h);
  for (int i = 0; i < 100; ++i) {
    while (limiter.try_acquire(std::to_string(i), small, 1, at(0s)).allowed()) continue;
  }
  const Limit large = sliding_window_log(1000000).per(1h);
  for (int i = 0; i < 100000; ++i) {
    ASSERT_TRUE(limiter.try_acquire("large", large, 1, at(i * 1ms)).allowed());
  }
  EXPECT_GT(store.stats().merged_logs, 0u);
  EXPECT_EQ(store.stats().evictions, 0u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(limiter.try_acquire(std::to_string(i), small, 1, at(100s)).allowed());
  }
}

TEST(MemoryStore, MergedHybridThatCountsMoreDeniesTheWholeRequest) {
  MemoryStore store({.max_log_bytes = 4096, .shards = 1});
  Limiter limiter(store);
  const Limit hybrid = sliding_window_hybrid(1000).per(1s).slices(1000);
  const Limit window = fixed_window(1000000).per(1h);
  std::uint32_t taken = 0;
  for (int i = 0; i < 20000; ++i) {
    Request request{{{"window", window, 1}, {"hybrid", hybrid, 1}}};
    const Decision all = request.take(store, at(i * 300us));
    ASSERT_NE(all.reason, Reason::kStoreError);
    taken += all.allowed();
    ASSERT_EQ(request.each[1].allowed(), all.allowed());
  }
  EXPECT_GT(store.stats().merged_logs, 0u);
  EXPECT_EQ(limiter.peek("window", window, 0, at(0s)).remaining, 1000000 - taken);
}

// --- statistics ---

TEST(MemoryStore, StatsCountKeysAndBytes) {
  MemoryStore store;
  Limiter limiter(store);
  EXPECT_EQ(store.stats().keys, 0u);
  limiter.try_acquire("a", token_bucket(5).per(1h), 1, at(0s)).allowed();
  EXPECT_EQ(store.stats().keys, 1u);
  EXPECT_EQ(store.stats().log_bytes, 0u);
  limiter.try_acquire("a", sliding_window_counter(5).per(1h), 1, at(0s)).allowed();
  EXPECT_EQ(store.stats().keys, 2u);
  EXPECT_EQ(store.stats().log_bytes, 64u);
  limiter.reset("a", sliding_window_counter(5).per(1h));
  EXPECT_EQ(store.stats().log_bytes, 0u);
}

}  // namespace
}  // namespace sluice
