#include "sluice/deny_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "sluice/block.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/test_store.h"
#include "tests/support/counting_store.h"

namespace sluice::deny_cache_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = token_bucket(10).per(10s);  // a unit a second

// A cache before a store that counts what it is asked, before a memory store.
class DenyCacheTest : public ::testing::Test {
 protected:
  void exhaust(std::string_view key) {
    ASSERT_TRUE(limiter_.try_acquire(key, kLimit, 10));
    ASSERT_EQ(limiter_.try_acquire(key, kLimit).reason, Reason::kLimited);
    inner_.asked = 0;
  }
  // Whether the cache has answered.
  bool is_hit(const Decision& decision) {
    EXPECT_EQ(decision.reason == Reason::kDenyCache, inner_.asked == 0);
    inner_.asked = 0;
    return decision.reason == Reason::kDenyCache && !decision.allowed();
  }

  testing::ManualClock clock_;
  MemoryStore memory_{{}, clock_};
  testing::CountingStore inner_{memory_};
  DenyCache cache_{{}, clock_};
  DenyCacheStore store_{inner_, cache_};
  Limiter limiter_{store_};
};

TEST_F(DenyCacheTest, RemembersNoDenialOfPermits) {
  constexpr Limit kOne = concurrency(1).lease(1h);
  Permit permit = limiter_.hold("k", kOne);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(limiter_.hold("k", kOne).decision().reason, Reason::kLimited);
  }
  permit.release();
  EXPECT_TRUE(limiter_.hold("k", kOne));
}

// The store must see denials that count, and need not see those of a key that is blocked.
TEST_F(DenyCacheTest, RepeatsOnlyTheBlocksOfChargesThatHaveOne) {
  const Block block = *Block::make({.after = 3, .within = 1h, .time = 10min});
  const Charge charge{.key = "k", .limit = kLimit, .cost = 10, .block = &block};
  const auto take = [&] { return store_.apply_one(Verb::kTake, charge, {}); };
  EXPECT_TRUE(take());
  EXPECT_EQ(take().reason, Reason::kLimited);
  EXPECT_EQ(take().reason, Reason::kLimited);
  EXPECT_EQ(take().reason, Reason::kBlocked);
  inner_.asked = 0;
  clock_.advance(300ms);
  const Decision again = take();
  EXPECT_EQ(again.reason, Reason::kBlocked);
  EXPECT_EQ(again.retry_after, 10min - 300ms);
  EXPECT_EQ(inner_.asked, 0);
  store_.apply_one(Verb::kUnblock, charge, {});
  EXPECT_EQ(take().reason, Reason::kLimited) << "the cache has forgotten the block";
}

TEST_F(DenyCacheTest, LetsTheStoreCountForABlockWhatAnotherLimitDenies) {
  const Block block = *Block::make({.after = 3, .within = 1h, .time = 10min});
  std::array<Charge, 2> both{Charge{.key = "a", .limit = kLimit, .cost = 10, .block = &block},
                             Charge{.key = "b", .limit = kLimit, .cost = 10}};
  std::array<Decision, 2> each;
  const auto take = [&] { return store_.apply(Verb::kTake, both, {}, each); };
  EXPECT_TRUE(take());
  EXPECT_EQ(take().reason, Reason::kLimited);
  EXPECT_EQ(take().reason, Reason::kLimited);
  EXPECT_EQ(take().reason, Reason::kBlocked);
  inner_.asked = 0;
  EXPECT_EQ(take().retry_after, 10min);
  EXPECT_EQ(inner_.asked, 0) << "a request of a blocked key counts nothing";
  both[0].cost = 0;
  EXPECT_TRUE(is_hit(take())) << "nor does a cost of 0";
}

TEST_F(DenyCacheTest, AnswersRequestsThatTheStoreHasDenied) {
  exhaust("k");
  clock_.advance(300ms);
  const Decision denied = limiter_.try_acquire("k", kLimit);
  EXPECT_EQ(denied, (Decision{.outcome = Outcome::kDenied,
                              .reason = Reason::kDenyCache,
                              .capacity = 10,
                              .remaining = 0,
                              .reset_after = 9700ms,
                              .retry_after = Duration{700ms}}));
  EXPECT_EQ(inner_.asked, 0);
  EXPECT_EQ(cache_.hits(), 1u);
  EXPECT_FALSE(is_hit(limiter_.try_acquire("another", kLimit)));
}

TEST_F(DenyCacheTest, AsksTheStoreAgainExactlyAtRetryAfter) {
  exhaust("k");
  clock_.advance(1s - 1us);
  EXPECT_TRUE(is_hit(limiter_.try_acquire("k", kLimit)));
  clock_.advance(1us);
  EXPECT_TRUE(limiter_.try_acquire("k", kLimit));
}

TEST_F(DenyCacheTest, AsksTheStoreAgainAfterTheLongestTime) {
  DenyCache cache({.longest = 250ms}, clock_);
  DenyCacheStore store(inner_, cache);
  Limiter limiter(store);
  exhaust("k");
  EXPECT_FALSE(is_hit(limiter.try_acquire("k", kLimit)));
  clock_.advance(250ms - 1us);
  EXPECT_TRUE(is_hit(limiter.try_acquire("k", kLimit)));
  clock_.advance(1us);
  EXPECT_FALSE(is_hit(limiter.try_acquire("k", kLimit)));
  EXPECT_TRUE(is_hit(limiter.try_acquire("k", kLimit)));
}

TEST_F(DenyCacheTest, IsOffIfTheLongestTimeIsZero) {
  DenyCache cache({.longest = 0s}, clock_);
  DenyCacheStore store(inner_, cache);
  exhaust("k");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(is_hit(Limiter(store).try_acquire("k", kLimit)));
}

TEST_F(DenyCacheTest, AnswersTheSameAndLargerCostsOnly) {
  exhaust("k");
  clock_.advance(10s);
  ASSERT_TRUE(limiter_.try_acquire("k", kLimit, 7));
  ASSERT_EQ(limiter_.try_acquire("k", kLimit, 5).retry_after, Duration{2s});
  inner_.asked = 0;
  EXPECT_FALSE(is_hit(limiter_.try_acquire("k", kLimit, 1)));
  const Decision larger = limiter_.try_acquire("k", kLimit, 6);
  EXPECT_TRUE(is_hit(larger));
  EXPECT_EQ(larger.retry_after, Duration{2s}) << "of the cost that was denied";
}

TEST_F(DenyCacheTest, AnswersNeverForACostBeyondTheCapacity) {
  exhaust("k");
  EXPECT_EQ(limiter_.try_acquire("k", kLimit, 11).reason, Reason::kNever);
  EXPECT_EQ(limiter_.check(std::array{Charge{"k", kLimit, 11}, Charge{"x", kLimit}}).reason,
            Reason::kNever);
  inner_.asked = 0;
  EXPECT_TRUE(is_hit(limiter_.try_acquire("k", kLimit, 10)));
}

TEST_F(DenyCacheTest, AsksTheStoreIfTheNumbersOfTheLimitDiffer) {
  exhaust("k");
  const Limit wider = token_bucket(11).per(10s);
  EXPECT_TRUE(limiter_.try_acquire("k", wider));
  EXPECT_FALSE(is_hit(limiter_.try_acquire("k", kLimit))) << "what was changed was forgotten";
  exhaust("l");
  EXPECT_FALSE(is_hit(limiter_.try_acquire("l", token_bucket(10).per(20s))));
  EXPECT_FALSE(is_hit(limiter_.try_acquire("l", gcra(10).per(10s))));
  EXPECT_FALSE(is_hit(limiter_.check(std::array{Charge{"l", kLimit, 1, "tag"}})));
}

TEST_F(DenyCacheTest, AsksTheStoreForPeeksAndExplicitTimestamps) {
  exhaust("k");
  EXPECT_FALSE(is_hit(limiter_.peek("k", kLimit)));
  EXPECT_FALSE(is_hit(limiter_.try_acquire("k", kLimit, 1, clock_.now())));
  exhaust("l");
  EXPECT_FALSE(is_hit(limiter_.try_acquire("l", kLimit, 1, clock_.now())))
      << "a request with a timestamp is not looked up";
}

TEST_F(DenyCacheTest, AsksTheStoreForVerbsThatMayBeAllowedWhenATakeIsNot) {
  exhaust("k");
  const Charge charge{"k", kLimit};
  EXPECT_EQ(limiter_.charge("k", kLimit).reason, Reason::kOver);
  EXPECT_TRUE(limiter_.apply({Verb::kReserve, 1h}, {&charge, 1}));
  EXPECT_FALSE(limiter_.take_at_most("k", kLimit, 5));
  EXPECT_EQ(inner_.asked, 3);
  EXPECT_EQ(cache_.hits(), 0u);
}

TEST_F(DenyCacheTest, DoesNotLearnFromPeeks) {
  ASSERT_TRUE(limiter_.try_acquire("k", kLimit, 10));
  EXPECT_FALSE(limiter_.peek("k", kLimit));
  inner_.asked = 0;
  EXPECT_FALSE(is_hit(limiter_.try_acquire("k", kLimit)));
}

TEST_F(DenyCacheTest, ForgetsADenialAfterARefundOrAReset) {
  exhaust("k");
  EXPECT_TRUE(limiter_.refund("k", kLimit));
  EXPECT_TRUE(limiter_.try_acquire("k", kLimit));
  exhaust("l");
  EXPECT_TRUE(limiter_.apply(Verb::kReset, std::array{Charge{"l", kLimit}, Charge{"m", kLimit}}));
  EXPECT_TRUE(limiter_.try_acquire("l", kLimit));
  exhaust("n");
  EXPECT_TRUE(store_.apply_one(Verb::kReset, {"n", kLimit}, clock_.now()));
  EXPECT_TRUE(limiter_.try_acquire("n", kLimit));
}

TEST_F(DenyCacheTest, ForgetsADenialAfterASettlementThatGivesBack) {
  exhaust("k");
  Charge charge{"k", kLimit, 1};
  store_.apply_one(Verb::kCharge, charge, {});
  inner_.asked = 0;
  EXPECT_TRUE(is_hit(limiter_.try_acquire("k", kLimit)));
  charge.gives_back = true;
  charge.cost = 5;
  store_.apply_one(Verb::kCharge, charge, {});
  EXPECT_TRUE(limiter_.try_acquire("k", kLimit).allowed());
}

TEST_F(DenyCacheTest, ForgetsADenialEvenIfTheRefundFails) {
  TestStore failing;
  DenyCacheStore other(failing, cache_);
  for (const Verb verb : {Verb::kRefund, Verb::kReset}) {
    exhaust("k");
    failing.fail(Reason::kStoreTimeout);
    EXPECT_FALSE(other.apply_one(verb, {"k", kLimit}, {}));
    EXPECT_FALSE(is_hit(limiter_.try_acquire("k", kLimit)));
    limiter_.reset("k", kLimit);
  }
}

TEST_F(DenyCacheTest, DoesNotStoreADenialFromBeforeAReset) {
  TestStore slow;
  DenyCacheStore store(slow, cache_);
  slow.answer = {.outcome = Outcome::kDenied, .reason = Reason::kLimited, .retry_after = 1s};
  slow.before_answer = [&] { limiter_.reset("k", kLimit); };
  store.apply_one(Verb::kTake, {"k", kLimit}, {});
  slow.before_answer = nullptr;
  slow.asked = 0;
  store.apply_one(Verb::kTake, {"k", kLimit}, {});
  EXPECT_EQ(slow.asked, 1);
  store.apply_one(Verb::kTake, {"k", kLimit}, {});
  EXPECT_EQ(slow.asked, 1) << "the second denial is remembered";
}

TEST_F(DenyCacheTest, StoresOnlyDenialsByTheLimit) {
  for (const Reason reason : {Reason::kNever, Reason::kStoreTimeout, Reason::kStoreError,
                              Reason::kForeignValue, Reason::kFallback, Reason::kInvalid}) {
    TestStore failing;
    DenyCacheStore store(failing, cache_);
    failing.answer = {.outcome = Outcome::kDenied, .reason = reason, .retry_after = 1s};
    for (int i = 0; i < 3; ++i) store.apply_one(Verb::kTake, {"k", kLimit}, {});
    EXPECT_EQ(failing.asked, 3) << to_string(reason);
  }
}

TEST_F(DenyCacheTest, DeniesARequestWithOneDeniedCharge) {
  exhaust("k");
  const std::array charges{Charge{"a", fixed_window(7).per(1h)}, Charge{"k", kLimit},
                           Charge{"b", gcra(3).per(1s)}};
  std::array<Decision, 3> each;
  const Decision all = limiter_.check(charges, each);
  EXPECT_TRUE(is_hit(all));
  EXPECT_EQ(all.retry_after, Duration{1s});
  EXPECT_EQ(all.capacity, 10u);
  EXPECT_EQ(each[0], (Decision{.reason = Reason::kDenyCache, .capacity = 7})) << "it was not asked";
  EXPECT_EQ(each[1], all);
  EXPECT_EQ(each[2], (Decision{.reason = Reason::kDenyCache, .capacity = 3}));
  EXPECT_EQ(cache_.hits(), 1u);
  EXPECT_EQ(limiter_.peek("a", fixed_window(7).per(1h), 0).remaining, 7u);
}

TEST_F(DenyCacheTest, StoresTheChargesThatDeniedARequest) {
  ASSERT_TRUE(limiter_.try_acquire("k", kLimit, 10));
  std::vector<Charge> charges;
  std::vector<std::string> keys;
  for (int i = 0; i < 63; ++i) keys.push_back(std::to_string(i));
  for (const std::string& key : keys) charges.push_back({key, kLimit});
  charges.push_back({"k", kLimit});
  EXPECT_EQ(limiter_.check(charges).reason, Reason::kLimited);
  inner_.asked = 0;
  EXPECT_TRUE(is_hit(limiter_.try_acquire("k", kLimit)));
  EXPECT_TRUE(is_hit(limiter_.check(charges)));
  EXPECT_FALSE(is_hit(limiter_.try_acquire("0", kLimit)));
}

TEST_F(DenyCacheTest, AsksTheStoreForTwoChargesOnOneCounter) {
  exhaust("k");
  const std::array twice{Charge{"k", kLimit}, Charge{"k", kLimit}};
  const Decision both = limiter_.check(twice);
  EXPECT_FALSE(is_hit(both));
  EXPECT_EQ(both.retry_after, Duration{2s}) << "of their summed cost";
  clock_.advance(1s);
  ASSERT_EQ(limiter_.check(twice).reason, Reason::kLimited);
  EXPECT_TRUE(limiter_.try_acquire("k", kLimit)) << "only both together were denied";
}

TEST_F(DenyCacheTest, LetsTheStoreRefuseInvalidRequests) {
  exhaust("k");
  EXPECT_EQ(limiter_.check({}).reason, Reason::kInvalid);
  EXPECT_EQ(limiter_.check(std::vector<Charge>(65, {"k", kLimit})).reason, Reason::kInvalid);
}

TEST_F(DenyCacheTest, ForgetsTheDenialThatEndsSoonestIfItIsFull) {
  DenyCache cache({.max_keys = 7}, clock_);  // one group
  TestStore inner;
  DenyCacheStore store(inner, cache);
  const auto deny = [&](const std::string& key, Duration wait) {
    inner.answer = {.outcome = Outcome::kDenied, .reason = Reason::kLimited, .retry_after = wait};
    inner.asked = 0;
    return store.apply_one(Verb::kTake, {key, kLimit}, {}).reason == Reason::kDenyCache;
  };
  for (int i = 0; i < 8; ++i)
    EXPECT_FALSE(deny(std::to_string(i), (i == 3 ? 1ms : 10ms) + 1us * i));
  for (int i = 0; i < 8; ++i) {
    if (i != 3) {
      EXPECT_TRUE(deny(std::to_string(i), 1ms)) << i;
    }
  }
  EXPECT_FALSE(deny("3", 1ms));
}

TEST_F(DenyCacheTest, EndsNoWaitLateIfTheClockGoesBack) {
  exhaust("k");
  clock_.advance(-1us);
  EXPECT_FALSE(is_hit(limiter_.try_acquire("k", kLimit)));
}

TEST_F(DenyCacheTest, ForgetsADenialUnderOtherNumbersEvenIfTheClockHasGoneBack) {
  const Limit slow = sliding_window_hybrid(2).per(24h);
  ASSERT_TRUE(limiter_.try_acquire("k", slow, 2));
  clock_.advance(1h);
  ASSERT_FALSE(limiter_.try_acquire("k", slow));
  clock_.advance(-1us);
  EXPECT_TRUE(limiter_.try_acquire("k", sliding_window_hybrid(9).per(1s)));
  clock_.advance(1h);
  EXPECT_TRUE(limiter_.try_acquire("k", slow)) << "the counter was forgotten";
}

}  // namespace
}  // namespace sluice::deny_cache_test
