#include "sluice/reservation.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <span>
#include <utility>

#include "limiter/waits.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "stores/policy/test_store.h"
#include "tests/support/counting_store.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Limit kTokens = token_bucket(10).per(1s).burst(10);
constexpr Limit kRequests = fixed_window(3).per(1min);
constexpr Instant kNow{1'000'000s};

class ReservationTest : public ::testing::Test {
 protected:
  std::uint64_t left(std::string_view key, const Limit& limit = kTokens, Duration later = 0s) {
    return limiter_.peek(key, limit, 0, kNow + later).remaining;
  }

  MemoryStore store_;
  Limiter limiter_{store_};
};

TEST_F(ReservationTest, DelaysAreInTheOrderOfTheCallers) {
  const Reservation first = limiter_.reserve("k", kTokens, 10, 1s, kNow);
  const Reservation second = limiter_.reserve("k", kTokens, 4, 1s, kNow);
  const Reservation third = limiter_.reserve("k", kTokens, 7, 1s, kNow);
  EXPECT_TRUE(first && second);
  EXPECT_EQ(first.delay(), 0s);
  EXPECT_EQ(second.delay(), 400ms);
  EXPECT_FALSE(third);
  EXPECT_EQ(third.delay(), 0s);
  EXPECT_EQ(third.decision().retry_after, Duration{100ms});
}

TEST_F(ReservationTest, StaysChargedWhenItIsDestroyed) {
  {
    const Reservation gone = limiter_.reserve("k", kTokens, 6, 1s, kNow);
  }
  EXPECT_EQ(left("k"), 4u);
}

TEST_F(ReservationTest, CancelGivesBackBeforeTheTurnOnly) {
  EXPECT_TRUE(limiter_.try_acquire("k", kTokens, 10, kNow));
  Reservation early = limiter_.reserve("k", kTokens, 5, 1s, kNow);
  Reservation late = limiter_.reserve("k", kTokens, 5, 1s, kNow);
  EXPECT_TRUE(early.cancel(kNow + 499ms));
  EXPECT_EQ(early.cancel(kNow + 499ms).reason, Reason::kInvalid);
  EXPECT_EQ(late.delay(), 1s);
  EXPECT_EQ(late.cancel(kNow + 1s).reason, Reason::kInvalid);
  EXPECT_EQ(left("k", kTokens, 1s), 5u);
}

TEST_F(ReservationTest, SettlesToTheActualCost) {
  Reservation less = limiter_.reserve("k", kTokens, 8, 1s, kNow);
  EXPECT_EQ(less.settle(3, kNow).remaining, 7u);
  EXPECT_EQ(less.settle(0, kNow).reason, Reason::kInvalid);
  Reservation more = limiter_.reserve("k", kTokens, 2, 1s, kNow);
  EXPECT_EQ(more.settle(7, kNow).reason, Reason::kOk);
  Reservation over = limiter_.reserve("k", kTokens, 2, 1s, kNow);
  EXPECT_EQ(over.settle(4, kNow).reason, Reason::kOver);
  EXPECT_EQ(limiter_.peek("k", kTokens, 1, kNow).retry_after, Duration{500ms});
}

TEST_F(ReservationTest, SettlesEachChargeAndKeepsItsOwnKeys) {
  std::string request_key = "requests of a key that is longer than a short string";
  std::array charges{Charge{request_key, kRequests}, Charge{"tokens", kTokens, 8}};
  Reservation call = limiter_.reserve(charges, 1s, kNow);
  request_key = "something else";
  ASSERT_EQ(call.each().size(), 2u);
  EXPECT_EQ(call.each()[1].remaining, 2u);
  Reservation moved = std::move(call);
  EXPECT_EQ(moved.settle(std::array<std::uint64_t, 2>{2, 5}, kNow).reason, Reason::kOk);
  EXPECT_EQ(left("requests of a key that is longer than a short string", kRequests), 1u);
  EXPECT_EQ(left("tokens"), 5u);
  EXPECT_EQ(call.settle(0).reason, Reason::kInvalid);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.settle(std::array<std::uint64_t, 1>{0}).reason, Reason::kInvalid);
}

TEST_F(ReservationTest, SettlesNothingBackOfWhatOthersHaveTakenSince) {
  const std::array<Limit, 5> limits{fixed_window(10).per(1min), sliding_window_log(10).per(1min),
                                    token_bucket(10).per(1min), gcra(10).per(1min).burst(9),
                                    sliding_window_hybrid(10).per(1min)};
  for (const Limit& limit : limits) {
    Reservation early = limiter_.reserve("k", limit, 4, 0s, kNow);
    Reservation late = limiter_.reserve("k", limit, 6, 0s, kNow);
    EXPECT_EQ(early.settle(1, kNow + 1s).reason, Reason::kOk);
    EXPECT_TRUE(limiter_.try_acquire("k", limit, 10, kNow + 2min));
    EXPECT_EQ(late.settle(0, kNow + 2min).reason, Reason::kOk);
    EXPECT_EQ(left("k", limit, 2min), 0u) << to_string(limit.algorithm());
  }
}

TEST_F(ReservationTest, SettlesUpAndDownInOneRequestToTheStore) {
  testing::CountingStore store(store_);
  Limiter limiter(store);
  const std::array charges{Charge{"up", kTokens, 2}, Charge{"down", kTokens, 8},
                           Charge{"same", kTokens, 1}};
  Reservation call = limiter.reserve(charges, 1s, kNow);
  store.asked = 0;
  const Decision settled = call.settle(std::array<std::uint64_t, 3>{7, 3, 1}, kNow);
  EXPECT_EQ(settled.reason, Reason::kOk);
  EXPECT_EQ(settled.remaining, 3u) << "of the tightest";
  EXPECT_EQ(store.asked, 1);
  EXPECT_EQ(left("up"), 3u);
  EXPECT_EQ(left("down"), 7u);
  EXPECT_EQ(left("same"), 9u);
}

TEST_F(ReservationTest, CancelReleasesItsPermitAndNotThatOfAnother) {
  constexpr Limit kTwo = concurrency(2).lease(1min);
  const PermitId own = PermitId::random(), other = PermitId::random();
  const auto permit = [&](const PermitId& id) {
    return Charge{.key = "p", .limit = kTwo, .permit = &id};
  };
  EXPECT_TRUE(limiter_.try_acquire("k", kTokens, 10, kNow));
  Reservation call = limiter_.reserve(std::array{Charge{"k", kTokens, 5}, permit(own)}, 1s, kNow);
  EXPECT_TRUE(store_.apply_one(Verb::kTake, permit(other), kNow));
  EXPECT_TRUE(call.cancel(kNow));
  EXPECT_EQ(store_.apply_one(Verb::kExtend, permit(own), kNow).reason, Reason::kGone);
  EXPECT_TRUE(store_.apply_one(Verb::kExtend, permit(other), kNow));
  EXPECT_EQ(left("k", kTokens, 1s), 10u);
}

// A thread that waits for a permit, cancels the reservation that has it, and is called.
class CallsForPermit final : public detail::WaitingThread {
 public:
  CallsForPermit(Store& store, const Charge& charge, Reservation& holds)
      : store_(store), charge_(charge), holds_(holds) {}

  Decision ask(Action action) noexcept override {
    return decision_ = store_.apply_one(action, charge_, {});
  }
  void give_back() noexcept override {}
  std::span<const Charge> charges() noexcept override { return {&charge_, 1}; }
  std::span<Decision> each() noexcept override { return {&decision_, 1}; }
  bool park(Instant until) noexcept override {
    EXPECT_TRUE(holds_.cancel());
    EXPECT_TRUE(is_called);
    return WaitingThread::park(until);
  }
  void wake() noexcept override {
    is_called = true;
    WaitingThread::wake();
  }

  bool is_called = false;

 private:
  Store& store_;
  const Charge charge_;
  Reservation& holds_;
  Decision decision_;
};

TEST_F(ReservationTest, CancelCallsTheThreadThatWaitsForItsPermit) {
  const Limit flight = concurrency(1).lease(1h);
  const PermitId own = PermitId::random();
  const PermitId other = PermitId::random();
  const Limit slow = token_bucket(1).per(1h);
  const auto permit = [&](const PermitId& id) {
    return Charge{.key = "p", .limit = flight, .permit = &id};
  };
  EXPECT_TRUE(limiter_.try_acquire("k", slow));
  Reservation holds = limiter_.reserve(std::array{permit(own), Charge{"k", slow}}, 2h);
  ASSERT_TRUE(holds);
  CallsForPermit waits(store_, permit(other), holds);
  EXPECT_TRUE(detail::acquire(store_, waits, Deadline(1h).at()).allowed());
  EXPECT_TRUE(waits.is_called);
}

TEST_F(ReservationTest, CancelGivesBackToTheBudgetThatWasChargedBesideABucket) {
  constexpr Limit kAmount = budget(10).per(1h);
  EXPECT_TRUE(limiter_.try_acquire("k", kTokens, 10, kNow));
  EXPECT_TRUE(limiter_.try_acquire("full", kAmount, 10, kNow));
  const std::array charges{
      Charge{"k", kTokens, 5}, Charge{"full", kAmount, 5},
      Charge{.key = "credits", .limit = kAmount, .cost = 5, .alternative = true}};
  Reservation call = limiter_.reserve(charges, 1s, kNow);
  EXPECT_EQ(left("credits", kAmount), 5u);
  EXPECT_TRUE(call.cancel(kNow));
  EXPECT_EQ(left("credits", kAmount), 10u);
  EXPECT_EQ(left("full", kAmount), 0u);
  EXPECT_EQ(left("k", kTokens, 1s), 10u);
}

TEST_F(ReservationTest, NothingComesBackThatAFailurePolicyAdmitted) {
  TestStore store;
  store.answer = {.reason = Reason::kFallback, .delay = 1s};
  Limiter limiter(store);
  EXPECT_EQ(limiter.reserve("k", kTokens, 8, 1s, kNow).cancel(kNow).reason, Reason::kInvalid);
  EXPECT_EQ(store.asked, 1);
  EXPECT_TRUE(limiter.reserve("k", kTokens, 8, 1s, kNow).settle(3, kNow));
  EXPECT_EQ(store.last_cost, 0u);
  EXPECT_TRUE(limiter.reserve("k", kTokens, 3, 1s, kNow).settle(8, kNow));
  EXPECT_EQ(store.last_cost, 5u);
}

TEST_F(ReservationTest, AnExactReservationSettlesToItself) {
  Reservation call = limiter_.reserve("k", kTokens, 8, 1s, kNow);
  const Decision settled = call.settle(8, kNow);
  EXPECT_TRUE(settled);
  EXPECT_EQ(settled.remaining, 2u);
}

TEST_F(ReservationTest, WaitsForItsTurn) {
  constexpr Limit kFast = token_bucket(100).per(1s).burst(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(limiter_.try_acquire("k", kFast, 1, kNow));
  const Reservation call = limiter_.reserve("k", kFast, 1, 1s, kNow);
  EXPECT_EQ(call.delay(), 10ms);
  call.wait();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, call.delay());
}

TEST_F(ReservationTest, OfAWindowIsATake) {
  EXPECT_TRUE(limiter_.reserve("k", kRequests, 3, 1h, kNow));
  EXPECT_EQ(limiter_.reserve("k", kRequests, 1, 1h, kNow).decision().retry_after, Duration{1min});
}

TEST_F(ReservationTest, DeniesAWaitThatIsNone) {
  EXPECT_EQ(limiter_.reserve("k", kTokens, 1, -1us, kNow).decision().reason, Reason::kInvalid);
}

}  // namespace
}  // namespace sluice
