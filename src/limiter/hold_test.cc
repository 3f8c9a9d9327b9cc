#include "sluice/hold.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "sluice/testing/manual_clock.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

class Holds : public ::testing::Test {
 protected:
  std::uint64_t left(const Limit& limit = kDay) { return limiter_.peek("k", limit, 0).remaining; }

  static constexpr Limit kDay = budget(100).per(24h);
  static constexpr Limit kRequests = fixed_window(3).per(24h);
  testing::ManualClock clock_;
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
};

TEST_F(Holds, AreSettledWithWhatWasUsed) {
  Hold hold = limiter_.hold("call 1", "k", kDay, 40, 30s);
  ASSERT_TRUE(hold);
  EXPECT_EQ(hold.id(), "call 1");
  EXPECT_EQ(hold.decision().ends_after, Duration{30s});
  EXPECT_EQ(left(), 60u);
  EXPECT_TRUE(hold.settle(25));
  EXPECT_TRUE(hold.settle(25).repeated);
  EXPECT_EQ(hold.settle(26).reason, Reason::kConflict);
  EXPECT_EQ(left(), 75u);
}

TEST_F(Holds, OfOneIdAreOneHold) {
  Hold hold = limiter_.hold("call 1", "k", kDay, 40, 30s);
  Hold again = limiter_.hold("call 1", "k", kDay, 40, 30s);
  EXPECT_TRUE(again.decision().repeated);
  EXPECT_EQ(limiter_.hold("call 1", "k", kDay, 41, 30s).decision().reason, Reason::kConflict);
  EXPECT_TRUE(again.cancel());
  EXPECT_TRUE(hold.cancel().repeated);
  EXPECT_EQ(left(), 100u);
}

TEST_F(Holds, StayUntilTheirEndIfTheyAreDestroyed) {
  std::string id;
  {
    const Hold hold = limiter_.hold("", "k", kDay, 40, 30s);
    id = hold.id();
    EXPECT_EQ(id.size(), 24u);
    const Hold other = limiter_.hold("", "k", kDay, 1, 30s);
    EXPECT_NE(other.id(), id);
  }
  EXPECT_EQ(left(), 59u);
  Hold moved = limiter_.hold(id, "k", kDay, 40, 30s);
  EXPECT_TRUE(moved.extend(60s));
  Hold target = std::move(moved);
  EXPECT_EQ(moved.settle(1).reason, Reason::kInvalid);  // NOLINT(bugprone-use-after-move)
  clock_.advance(60s);
  EXPECT_EQ(target.extend(60s).reason, Reason::kGone);
  EXPECT_EQ(left(), 59u) << "it is spent";
  EXPECT_TRUE(target.settle(10).late);
  EXPECT_EQ(left(), 89u) << "and counted once";
}

TEST_F(Holds, OfSeveralLimitsSettleTheirBudgets) {
  constexpr Limit kMonth = budget(1000).per(366 * 24h);
  const std::array<Charge, 3> charges{Charge{"k", kRequests, 1}, Charge{"k", kDay, 40},
                                      Charge{"org", kMonth, 50}};
  Hold hold = limiter_.hold("call 1", charges, 30s);
  ASSERT_TRUE(hold);
  EXPECT_EQ(hold.each().size(), 3u);
  EXPECT_EQ(hold.each()[1].remaining, 60u);
  EXPECT_TRUE(hold.settle(std::array<std::uint64_t, 3>{9, 10, 20}));
  EXPECT_EQ(left(), 90u);
  EXPECT_EQ(left(kRequests), 2u) << "a window keeps what it took";
  EXPECT_EQ(limiter_.peek("org", kMonth, 0).remaining, 980u);
  EXPECT_EQ(hold.settle(std::array<std::uint64_t, 2>{1, 2}).reason, Reason::kInvalid);
}

TEST_F(Holds, ThatAreDeniedOrInvalidDoNothing) {
  Hold denied = limiter_.hold("call 1", "k", kDay, 101, 30s);
  EXPECT_EQ(denied.decision().reason, Reason::kNever);
  EXPECT_EQ(denied.settle(5).reason, Reason::kInvalid);
  const auto reason = [&](std::string_view id, const Limit& limit, Duration ttl) {
    return limiter_.hold(id, "k", limit, 1, ttl).decision().reason;
  };
  EXPECT_EQ(reason(std::string(129, 'x'), kDay, 30s), Reason::kInvalid);
  EXPECT_EQ(reason("call 1", kRequests, 30s), Reason::kInvalid);
  EXPECT_EQ(reason("call 1", kDay, 999ms), Reason::kInvalid);
  EXPECT_EQ(reason("call 1", kDay, 25h), Reason::kInvalid);
  EXPECT_EQ(reason(std::string_view("a\0b", 3), kDay, 30s), Reason::kOk);
  EXPECT_EQ(reason(std::string(128, 'x'), kDay, 30s), Reason::kOk);
  EXPECT_EQ(left(), 98u);
}

}  // namespace
}  // namespace sluice
