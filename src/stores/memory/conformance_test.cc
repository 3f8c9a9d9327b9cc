#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "sluice/memory_store.h"
#include "sluice/testing/store_conformance.h"

namespace sluice {
namespace {

using testing::check_store;
using testing::StoreConformance;

// A memory store with a fault. The functions change the request or the answer.
class FaultyStore final : public Store {
 public:
  using Fault = std::function<Decision(Store&, Action, std::vector<Charge>, std::optional<Instant>,
                                       std::span<Decision>)>;
  FaultyStore(const Clock& clock, Fault fault) : store_({}, clock), fault_(std::move(fault)) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    return fault_(store_, action, {charges.begin(), charges.end()}, now, each);
  }

 private:
  MemoryStore store_;
  Fault fault_;
};

bool is_found(FaultyStore::Fault fault, int requests = 50) {
  const auto make = [&](const Clock& clock) { return std::make_unique<FaultyStore>(clock, fault); };
  return !check_store({.make = make,
                       .permits = true,
                       .budgets = true,
                       .threads = 2,
                       .requests_per_thread = requests})
              .empty();
}

TEST(StoreConformance, FindsNoFaultInACorrectStore) {
  EXPECT_FALSE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    return s.apply(v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsAStoreThatKeepsReleasedPermits) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    return s.apply(v.verb == Verb::kRelease ? Action(Verb::kPeek) : v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsAStoreThatExtendsAPartOfAPermit) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    if (v.verb != Verb::kExtend || charges.size() == 1) return s.apply(v, charges, now, each);
    Decision all;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      each[i] = s.apply_one(v, charges[i], now);
      if (!each[i].allowed()) all = each[i];
    }
    return all;
  }));
}

TEST(StoreConformance, FindsAStoreThatChargesDeniedRequests) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    const Decision decision = s.apply(v, charges, now, each);
    if (v.verb == Verb::kTake && decision.reason == Reason::kLimited && charges.size() > 1) {
      Decision one;
      for (const Charge& c : charges) s.apply(v, {&c, 1}, now, {&one, 1});
    }
    return decision;
  }));
}

TEST(StoreConformance, FindsAPeekThatTakes) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    return s.apply(v.verb == Verb::kPeek ? Action(Verb::kTake) : v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsARetryAfterOffByATick) {
  for (const Duration error : {Duration{-1}, Duration{1}}) {
    EXPECT_TRUE(is_found([=](Store& s, Action v, auto charges, auto now, auto each) {
      Decision decision = s.apply(v, charges, now, each);
      if (decision.retry_after) *decision.retry_after += error;
      return decision;
    }));
  }
}

TEST(StoreConformance, FindsAmountsThatOnlyTheChargeHas) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    Decision decision = s.apply(v, charges, now, each);
    decision.spent = 0;
    return decision;
  }));
}

TEST(StoreConformance, FindsKeysThatEndAtNul) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    for (Charge& c : charges) c.key = c.key.substr(0, c.key.find('\0'));
    return s.apply(v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsKeysCutShort) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    for (Charge& c : charges) c.key = c.key.substr(0, 65536);
    return s.apply(v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsCostsCutToThirtyTwoBits) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    for (Charge& c : charges) c.cost = static_cast<std::uint32_t>(c.cost);
    return s.apply(v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsALimitByLimitDecision) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    if (charges.size() < 2 || charges.size() > kMaxCharges) return s.apply(v, charges, now, each);
    Decision all;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      const Decision one = s.apply(v, {&charges[i], 1}, now, each.subspan(i, 1));
      if (i == 0 || !one.allowed()) all = one;
    }
    return all;
  }));
}

TEST(StoreConformance, FindsInstantsThatAreIgnored) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    return s.apply(v, charges,
                   now && *now >= kFirstInstant && *now <= kLastInstant ? std::nullopt : now, each);
  }));
}

TEST(StoreConformance, FindsAClockThatDoesNotMove) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    return s.apply(v, charges, now ? *now : testing::detail::kStart, each);
  }));
}

TEST(StoreConformance, FindsARefundThatForgetsAll) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    return s.apply(v.verb == Verb::kRefund ? Action(Verb::kReset) : v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsASettlementThatOnlyCharges) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    for (Charge& c : charges) c.gives_back = false;
    return s.apply(v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsACounterSharedByAlgorithms) {
  EXPECT_TRUE(is_found([](Store& s, Action v, auto charges, auto now, auto each) {
    for (Charge& c : charges) {
      if (c.limit.algorithm() != Algorithm::kGcra) continue;
      c.limit = Limit::make({.algorithm = Algorithm::kTokenBucket,
                             .limit = c.limit.limit(),
                             .per = c.limit.period(),
                             .burst = std::max<std::uint64_t>(c.limit.capacity(), 1)})
                    .value();
    }
    return s.apply(v, charges, now, each);
  }));
}

TEST(StoreConformance, FindsVerbsThatOnlyTake) {
  for (const Verb verb : {Verb::kCharge, Verb::kTakeAtMost, Verb::kReserve}) {
    EXPECT_TRUE(is_found([=](Store& s, Action v, auto charges, auto now, auto each) {
      return s.apply(v.verb == verb ? Action(Verb::kTake) : v, charges, now, each);
    })) << static_cast<int>(verb);
  }
}

// Two threads both look before both take. If one unit of an odd capacity is left, both receive it.
TEST(StoreConformance, FindsARaceBetweenTheTestAndTheTake) {
  const auto suite = std::this_thread::get_id();
  const auto both_have_looked = std::make_shared<std::barrier<>>(2);
  const FaultyStore::Fault fault = [=](Store& s, Action v, auto charges, auto now, auto each) {
    if (v.verb != Verb::kTake || std::this_thread::get_id() == suite) {
      return s.apply(v, charges, now, each);
    }
    const Decision decision = s.apply(Verb::kPeek, charges, now, each);
    both_have_looked->arrive_and_wait();
    std::vector<Decision> unread(charges.size());
    if (decision.allowed()) s.apply(Verb::kTake, charges, now, unread);
    return decision;
  };
  EXPECT_TRUE(is_found(fault, 51));
}

}  // namespace
}  // namespace sluice
