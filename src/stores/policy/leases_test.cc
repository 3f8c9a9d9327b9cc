#include "sluice/leased_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/limit.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "sluice/testing/store_conformance.h"
#include "stores/policy/async_policies.h"
#include "tests/support/wait_until.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Limit kBucket = token_bucket(1000).per(1s).leased(100ms);

// Passes requests on and counts them; fails with `failure` if there is one.
class CountingStore final : public Store {
 public:
  explicit CountingStore(const Clock& clock) : memory_({.max_keys = 1024}, clock) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    verbs.push_back(action.verb);
    costs.push_back(charges.front().cost);
    if (before) before();
    if (failure != Reason::kOk) {
      std::fill(each.begin(), each.end(), Decision::refused(failure));
      return Decision::refused(failure);
    }
    return memory_.apply(action, charges, now, each);
  }
  std::uint64_t remaining(std::string_view key, const Limit& limit) {
    return memory_.apply_one(Verb::kPeek, {key, limit, 0}, {}).remaining;
  }

  int asked = 0;
  std::vector<Verb> verbs;
  std::vector<std::uint64_t> costs;
  Reason failure = Reason::kOk;
  std::function<void()> before;

 private:
  MemoryStore memory_;
};

class LeasesTest : public ::testing::Test {
 protected:
  Decision take(std::string_view key = "k", const Limit& limit = kBucket, std::uint64_t cost = 1) {
    return limiter_.try_acquire(key, limit, cost);
  }
  // Takes until a request is answered from a lease. Returns the number of requests.
  int warm_up(std::string_view key = "k", const Limit& limit = kBucket) {
    for (int i = 1; i < 100; ++i) {
      if (take(key, limit).reason == Reason::kLease) return i;
    }
    return -1;
  }
  // Takes one unit each millisecond. Returns how many requests the store was asked.
  int pace(int requests, const Limit& limit = kBucket) {
    const int before = store_.asked;
    for (int i = 0; i < requests; ++i) {
      clock_.advance(1ms);
      EXPECT_TRUE(take("k", limit).allowed());
      leased_.give_back();
    }
    return store_.asked - before;
  }

  testing::ManualClock clock_;
  CountingStore store_{clock_};
  Leases leases_{{.nodes = 1}, clock_};
  LeasedStore leased_{store_, leases_, LeaseReturns::kByCaller};
  Limiter limiter_{leased_};
};

TEST_F(LeasesTest, FirstRequestsAskForExactlyTheirCost) {
  EXPECT_EQ(take().reason, Reason::kOk);
  EXPECT_EQ(store_.verbs, std::vector{Verb::kTake});
  EXPECT_EQ(store_.costs, std::vector<std::uint64_t>{1});
  EXPECT_EQ(warm_up(), 5) << "the fifth request, the fourth after the first, takes a batch of four";
  EXPECT_EQ(store_.costs, (std::vector<std::uint64_t>{1, 1, 1, 1, 4}));
  EXPECT_EQ(store_.verbs.back(), Verb::kTakeAtMost);
  EXPECT_EQ(leases_.stats().held, 1u);
}

TEST_F(LeasesTest, SlowCounterStaysExact) {
  for (int i = 0; i < 20; ++i) {
    clock_.advance(40ms);
    EXPECT_EQ(take().reason, Reason::kOk);
  }
  EXPECT_EQ(store_.asked, 20);
  EXPECT_EQ(leases_.stats().batches, 0u);
}

TEST_F(LeasesTest, BatchIsWhatTheLastLeaseUsed) {
  pace(300);
  EXPECT_LE(pace(1000), 2 * 11 + 2) << "a batch and what it leaves for each of ten leases";
  const std::uint64_t units = leases_.stats().taken - leases_.stats().given_back;
  EXPECT_LE(units, 1300u + 101u);
  for (const std::uint64_t cost : store_.costs) EXPECT_LE(cost, 110u);
}

TEST_F(LeasesTest, BatchShrinksWithTheRate) {
  pace(300);
  const int before = store_.asked;
  for (int i = 0; i < 40; ++i) {
    clock_.advance(10ms);
    EXPECT_TRUE(take().allowed());
    leased_.give_back();
  }
  EXPECT_GT(store_.asked, before);
  EXPECT_LE(store_.costs.back(), 11u);
}

TEST_F(LeasesTest, BatchIsAtMostTheShareOfTheCapacity) {
  Leases four({.nodes = 4}, clock_);
  LeasedStore leased(store_, four, LeaseReturns::kByCaller);
  Limiter limiter(leased);
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(limiter.try_acquire("k", kBucket).allowed());
  const auto largest = std::max_element(store_.costs.begin(), store_.costs.end());
  EXPECT_EQ(*largest, 1000u / 16);
}

TEST_F(LeasesTest, NearTheLimitEachRequestAsks) {
  int admitted = 0;
  while (take().allowed()) ++admitted;
  EXPECT_EQ(admitted, 1000) << "one process alone admits exactly the limit";
  EXPECT_EQ(take().reason, Reason::kLimited);
  EXPECT_EQ(store_.verbs.back(), Verb::kTake);
  EXPECT_EQ(*take().retry_after, 1ms);
}

TEST_F(LeasesTest, UnitsAreNotUsedAfterTheLease) {
  pace(300);
  ASSERT_EQ(take().reason, Reason::kLease);
  clock_.advance(100ms);
  const int before = store_.asked;
  EXPECT_EQ(take().reason, Reason::kOk);
  EXPECT_GT(store_.asked, before);
}

TEST_F(LeasesTest, RestIsGivenBackAtTheEndInOneRequest) {
  ASSERT_GT(warm_up("a"), 0);
  ASSERT_GT(warm_up("b"), 0);
  EXPECT_EQ(leases_.stats().held, 2u);
  clock_.advance(100ms);
  store_.verbs.clear();
  leased_.give_back();
  EXPECT_EQ(store_.verbs, std::vector{Verb::kRefund});
  EXPECT_EQ(leases_.stats().given_back, 4u);
  EXPECT_EQ(leases_.stats().held, 0u);
  EXPECT_FALSE(leases_.next_end());
}

TEST_F(LeasesTest, EndOfTheStoreGivesBackEverything) {
  {
    LeasedStore leased(store_, leases_);
    Limiter limiter(leased);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(limiter.try_acquire("k", kBucket).allowed());
  }
  EXPECT_EQ(store_.remaining("k", kBucket), 995u);
}

TEST_F(LeasesTest, EndOfAllLeasesGivesBackEverything) {
  ASSERT_EQ(warm_up("k", kBucket), 6);
  EXPECT_GT(leases_.stats().held, 0u);
  leased_.give_back();
  EXPECT_GT(leases_.stats().held, 0u) << "none is due";
  leased_.give_back(LeaseEnd::kAll);
  EXPECT_EQ(leases_.stats().held, 0u);
  EXPECT_EQ(store_.remaining("k", kBucket), 994u);
}

TEST_F(LeasesTest, FailedReturnLeavesTheUnitsTaken) {
  constexpr Limit kSlow = token_bucket(1000).per(24h).leased(100ms);
  ASSERT_EQ(warm_up("k", kSlow), 6);
  store_.failure = Reason::kStoreTimeout;
  clock_.advance(100ms);
  leased_.give_back();
  store_.failure = Reason::kOk;
  leased_.give_back();
  EXPECT_EQ(leases_.stats().given_back, 0u);
  EXPECT_EQ(store_.remaining("k", kSlow), 992u) << "eight taken, six used";
}

TEST_F(LeasesTest, FailureOfTheStoreIsTheAnswer) {
  pace(300);
  while (take().reason == Reason::kLease) {
  }
  store_.failure = Reason::kStoreError;
  while (take().reason == Reason::kLease) {
  }
  EXPECT_EQ(take().reason, Reason::kStoreError);
  EXPECT_EQ(store_.verbs.back(), Verb::kTake) << "no batches while the store fails";
  store_.failure = Reason::kOk;
  EXPECT_EQ(take().reason, Reason::kOk);
}

TEST_F(LeasesTest, StoreWithoutBatchesIsAskedOneByOne) {
  store_.before = [this] {
    store_.failure = store_.verbs.back() == Verb::kTakeAtMost ? Reason::kInvalid : Reason::kOk;
  };
  for (int i = 0; i < 50; ++i) EXPECT_EQ(take().reason, Reason::kOk);
  EXPECT_EQ(std::count(store_.verbs.begin(), store_.verbs.end(), Verb::kTakeAtMost), 1);
}

TEST_F(LeasesTest, SeveralLimitsAreAllOrNothing) {
  constexpr Limit kUser = token_bucket(5).per(1h);
  ASSERT_GT(warm_up("all"), 0);
  const std::array<Charge, 2> charges{{{"all", kBucket}, {"user", kUser}}};
  std::array<Decision, 2> each;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(limiter_.check(charges, each).allowed());
  EXPECT_EQ(each[0].reason, Reason::kLease);
  EXPECT_EQ(each[1].reason, Reason::kOk);
  while (limiter_.check(charges, each).allowed()) {
  }
  const std::uint64_t left = each[0].remaining;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limiter_.check(charges, each).reason, Reason::kLimited);
  EXPECT_EQ(each[0].remaining, left) << "a denied request takes nothing from the lease";
}

TEST_F(LeasesTest, SeveralBusyLimitsNeedNoStore) {
  const std::array<Charge, 2> charges{{{"all", kBucket}, {"api", kBucket}}};
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(limiter_.check(charges).allowed());
  EXPECT_LT(store_.asked, 40);
  EXPECT_GT(leases_.stats().local, 160u);
}

TEST_F(LeasesTest, TwoChargesOnOneCounterGoToTheStore) {
  ASSERT_GT(warm_up(), 0);
  const std::array<Charge, 2> charges{{{"k", kBucket}, {"k", kBucket}}};
  EXPECT_EQ(limiter_.check(charges).reason, Reason::kOk);
}

TEST_F(LeasesTest, OtherVerbsGoToTheStore) {
  ASSERT_GT(warm_up(), 0);
  for (const Verb verb : {Verb::kPeek, Verb::kRefund, Verb::kCharge, Verb::kReserve}) {
    const int before = store_.asked;
    EXPECT_TRUE(leased_.apply_one(verb, {"k", kBucket}, {}).allowed());
    EXPECT_EQ(store_.asked, before + 1);
  }
  EXPECT_EQ(limiter_.try_acquire("k", kBucket, 1, clock_.now()).reason, Reason::kOk)
      << "so does an explicit time";
}

TEST_F(LeasesTest, ResetEndsTheLease) {
  pace(300);
  ASSERT_EQ(take().reason, Reason::kLease);
  limiter_.reset("k", kBucket);
  EXPECT_EQ(take().reason, Reason::kOk);
  EXPECT_EQ(store_.remaining("k", kBucket), 999u) << "the units of before the reset are gone";
  clock_.advance(100ms);
  leased_.give_back();
  EXPECT_EQ(leases_.stats().held, 0u);
}

TEST_F(LeasesTest, ChangedNumbersEndTheLease) {
  pace(300);
  ASSERT_EQ(take().reason, Reason::kLease);
  constexpr Limit kOther = token_bucket(2000).per(1s).leased(100ms);
  EXPECT_EQ(take("k", kOther).reason, Reason::kOk);
  const std::uint64_t before = leases_.stats().given_back;
  leased_.give_back();
  EXPECT_GT(leases_.stats().given_back, before);
}

TEST_F(LeasesTest, BatchEndsWithItsWindow) {
  constexpr Limit kWindow = fixed_window(1000).per(250ms).leased(200ms);
  pace(150, kWindow);
  while (take("k", kWindow).reason != Reason::kLease) {
  }
  clock_.advance(101ms);
  leased_.give_back();
  EXPECT_EQ(take("k", kWindow).reason, Reason::kOk) << "the window has ended, the lease has not";
  const auto refunds = std::count(store_.verbs.begin(), store_.verbs.end(), Verb::kRefund);
  EXPECT_EQ(refunds, 0) << "units of a window are not given back to the next one";
  EXPECT_EQ(store_.remaining("k", kWindow), 1000u - store_.costs.back());
}

TEST_F(LeasesTest, QueueKeepsItsOrder) {
  constexpr Limit kQueue = leaky_bucket(1000).per(1s).queueing().leased(100ms);
  Duration last{-1};
  for (int i = 0; i < 100; ++i) {
    const Decision decision = take("q", kQueue);
    ASSERT_TRUE(decision.delay) << i;
    EXPECT_EQ(*decision.delay, Duration{1000 * i}) << i;
    EXPECT_GT(*decision.delay, last);
    last = *decision.delay;
  }
  EXPECT_GT(leases_.stats().local, 80u);
}

TEST_F(LeasesTest, OneRequestOfACounterTakesABatchAtATime) {
  bool nested = false;
  store_.before = [&] {
    if (nested || store_.verbs.back() != Verb::kTakeAtMost) return;
    nested = true;
    EXPECT_EQ(take().reason, Reason::kOk);
    EXPECT_EQ(store_.costs.back(), 1u);
  };
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(take().allowed());
  EXPECT_TRUE(nested);
}

TEST_F(LeasesTest, NothingIsLostIfALeaseEndsWhileABatchIsAskedFor) {
  constexpr Limit kSlow = token_bucket(1000).per(24h * 100).leased(100ms);
  bool ended = false;
  store_.before = [&] {
    if (store_.verbs.back() != Verb::kTakeAtMost || leases_.stats().held == 0) return;
    ended = true;
    clock_.advance(100ms);
    leased_.give_back();
  };
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(take("k", kSlow).allowed());
  EXPECT_TRUE(ended);
  clock_.advance(100ms);
  leased_.give_back();
  EXPECT_EQ(store_.remaining("k", kSlow), 980u);
}

TEST_F(LeasesTest, CountersBeyondTheMaximumStayExact) {
  Leases few({.max_keys = 8}, clock_);
  LeasedStore leased(store_, few, LeaseReturns::kByCaller);
  Limiter limiter(leased);
  for (int key = 0; key < 12; ++key) {
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(limiter.try_acquire(std::to_string(key), kBucket).allowed());
    }
  }
  EXPECT_EQ(few.stats().held, 8u);
}

// A memory store whose limits all have a lease, but no batch of more than one unit.
class AllLeased final : public Store {
 public:
  explicit AllLeased(const Clock& clock)
      : memory_({.max_keys = 1 << 16}, clock), leases_({.share = 1e-10}, clock) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    std::vector<Charge> leased(charges.begin(), charges.end());
    for (Charge& charge : leased) {
      LimitSpec spec = core::spec_of(charge.limit);
      if (!holds_permits(spec.algorithm)) spec.lease = 100ms;
      charge.limit = Limit::make(spec).value();
    }
    return leased_.apply(action, leased, now, each);
  }

 private:
  MemoryStore memory_;
  Leases leases_;
  LeasedStore leased_{memory_, leases_, LeaseReturns::kByCaller};
};

TEST(LeasedStore, ConformsWhileNoCounterIsBusy) {
  const auto make = [](const Clock& clock) { return std::make_unique<AllLeased>(clock); };
  for (const auto& failure : testing::check_store({.make = make})) ADD_FAILURE() << failure;
}

// Passes requests on to a store, and answers at once.
class AtOnce final : public AsyncStore {
 public:
  explicit AtOnce(Store& store) : store_(store) {}
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override {
    completion.done(store_.apply(action, charges, now, each));
  }

 private:
  Store& store_;
};

struct Received final : AsyncStore::Completion {
  void done(const Decision& said) noexcept override { decision = said; }
  Decision decision;
};

TEST_F(LeasesTest, AsynchronousStoreDecidesAlike) {
  CountingStore counting(clock_);
  AtOnce at_once(counting);
  Leases leases({.nodes = 1}, clock_);
  AsyncLeasedStore async(at_once, leases);
  for (int i = 0; i < 2000; ++i) {
    clock_.advance(Duration{i % 7 * 300});
    leased_.give_back();
    const std::array<Charge, 2> charges{{{"k", kBucket}, {"other", kBucket}}};
    const auto asked = std::span(charges).first(i % 3 == 0 ? 2 : 1);
    const Verb verb = i % 500 == 499 ? Verb::kReset : Verb::kTake;
    std::array<Decision, 2> each;
    const Decision expected = limiter_.apply(verb, asked, std::span(each).first(asked.size()));
    Received received;
    async.async_apply(verb, asked, {}, std::span(each).first(asked.size()), received);
    ASSERT_EQ(received.decision, expected) << i;
  }
  EXPECT_EQ(counting.verbs, store_.verbs);
  EXPECT_GT(leases.stats().given_back, 0u);
  EXPECT_EQ(leases.stats().local, leases_.stats().local);
}

TEST(LeasedStore, ThreadGivesBack) {
  MemoryStore memory;
  Leases leases;
  LeasedStore store(memory, leases);
  Limiter limiter(store);
  constexpr Limit kHour = token_bucket(4'000'000'000).per(1h).leased(1ms);
  // Many takes in a lease make the next one larger; then the pause leaves units of it unused.
  testing::wait_until(
      "the thread gives units back",
      [&] {
        (void)limiter.try_acquire("k", kHour, 1);
        return leases.stats().given_back > 0;
      },
      [&] {
        if (leases.stats().held > 0) std::this_thread::sleep_for(2ms);
      });
}

}  // namespace
}  // namespace sluice
