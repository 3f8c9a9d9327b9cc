#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "sluice/memory_store.h"
#include "sluice/permit_id.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr PermitId id_of(std::uint8_t number) { return PermitId(PermitId::Bytes{number, 1}); }

class MemoryPermits : public ::testing::Test {
 protected:
  Decision apply(Action action, std::vector<Charge> charges, Duration at = 0s) {
    each_.resize(charges.size());
    return store_.apply(action, charges, Instant{at}, each_);
  }
  Decision one(Action action, std::uint64_t cost, const PermitId* permit, Duration at = 0s) {
    return store_.apply_one(action, {.key = "k", .limit = kTwo, .cost = cost, .permit = permit},
                            Instant{at});
  }
  std::uint64_t left(std::string_view key, const Limit& limit, Duration at = 0s) {
    return store_.apply_one(Verb::kPeek, {key, limit, 0}, Instant{at}).remaining;
  }

  static constexpr Limit kTwo = concurrency(2).lease(10s);
  static constexpr Limit kBrief = concurrency(3).lease(1s);
  static constexpr Limit kBucket = token_bucket(1).per(60s);
  const PermitId first_ = id_of(1);
  const PermitId second_ = id_of(2);
  MemoryStore store_;
  std::vector<Decision> each_;
};

TEST_F(MemoryPermits, HoldUnitsUntilTheyAreReleasedOrTheirLeaseEnds) {
  EXPECT_EQ(one(Verb::kTake, 2, &first_).remaining, 0u);
  EXPECT_EQ(one(Verb::kTake, 1, &second_, 4s).retry_after, Duration{6s});
  EXPECT_TRUE(one(Verb::kRelease, 1, &first_, 4s));
  EXPECT_EQ(one(Verb::kRelease, 1, &first_, 4s).reason, Reason::kGone);
  EXPECT_TRUE(one(Verb::kTake, 2, &second_, 4s));
  EXPECT_TRUE(one(Verb::kExtend, 1, &second_, 13s));
  EXPECT_EQ(left("k", kTwo, 23s - 1us), 0u);
  EXPECT_EQ(left("k", kTwo, 23s), 2u);
  EXPECT_EQ(one(Verb::kExtend, 1, &second_, 23s).reason, Reason::kGone);
}

TEST_F(MemoryPermits, AreInvalidWhereTheyDoNotBelong) {
  for (const Verb verb :
       {Verb::kTake, Verb::kTakeAtMost, Verb::kReserve, Verb::kRelease, Verb::kExtend}) {
    EXPECT_EQ(one(verb, 1, nullptr).reason, Reason::kInvalid) << static_cast<int>(verb);
  }
  EXPECT_EQ(one(Verb::kCharge, 1, &first_).reason, Reason::kInvalid);
  EXPECT_TRUE(one(Verb::kPeek, 2, nullptr));
  EXPECT_EQ(left("k", kTwo), 2u);
  for (const Verb verb : {Verb::kRelease, Verb::kExtend}) {
    const Charge bucket{.key = "k", .limit = kBucket, .permit = &first_};
    EXPECT_EQ(store_.apply_one(verb, bucket, Instant{}).reason, Reason::kInvalid);
    EXPECT_EQ(apply(verb, {bucket, {.key = "k", .limit = kTwo, .permit = &first_}}).reason,
              Reason::kInvalid);
  }
  EXPECT_EQ(apply(Verb::kTake, {{.key = "k", .limit = kTwo, .permit = &first_},
                                {.key = "k", .limit = kTwo, .permit = &second_}})
                .reason,
            Reason::kInvalid);
  EXPECT_EQ(left("k", kTwo), 2u);
}

TEST_F(MemoryPermits, AreAllOrNothingWithOtherLimits) {
  const std::vector<Charge> request{{.key = "a", .limit = kTwo, .permit = &first_},
                                    {.key = "b", .limit = kBrief, .cost = 2, .permit = &first_},
                                    {.key = "c", .limit = kBucket, .permit = &first_}};
  const std::vector<Charge> permits(request.begin(), request.begin() + 2);
  EXPECT_TRUE(apply(Verb::kTake, request));
  EXPECT_FALSE(apply(Verb::kTake, request));
  EXPECT_EQ(left("a", kTwo), 1u);
  EXPECT_EQ(left("b", kBrief), 1u);
  EXPECT_TRUE(apply(Verb::kExtend, permits, 500ms));
  EXPECT_EQ(apply(Verb::kExtend, permits, 1500ms).reason, Reason::kGone);  // in "b"
  EXPECT_TRUE(each_[0].allowed());
  EXPECT_EQ(each_[0].reset_after, Duration{9s});
  EXPECT_EQ(each_[1].reason, Reason::kGone);
  EXPECT_EQ(left("a", kTwo, 10500ms), 2u);  // 10 s after the extension that was made
  EXPECT_TRUE(apply(Verb::kRelease, permits, 1500ms));
  EXPECT_EQ(each_[1].reason, Reason::kGone);
  EXPECT_EQ(left("a", kTwo, 1500ms), 2u);
  EXPECT_EQ(apply(Verb::kRelease, permits, 1500ms).reason, Reason::kGone);
}

TEST_F(MemoryPermits, OfOneRequestOnOneCounterAreOne) {
  const Charge charge{.key = "k", .limit = kTwo, .permit = &first_};
  EXPECT_TRUE(apply(Verb::kTake, {charge, charge}));
  EXPECT_EQ(left("k", kTwo), 0u);
  EXPECT_TRUE(apply(Verb::kRelease, {charge, charge}));
  EXPECT_EQ(left("k", kTwo), 2u);
  EXPECT_EQ(apply(Verb::kTakeAtMost, {charge, charge}).taken, 1u);
}

TEST_F(MemoryPermits, AreForgottenByAReset) {
  EXPECT_TRUE(one(Verb::kTake, 2, &first_));
  EXPECT_EQ(one(Verb::kReset, 0, nullptr).remaining, 2u);
  EXPECT_EQ(one(Verb::kRelease, 0, &first_).reason, Reason::kGone);
}

TEST_F(MemoryPermits, GrowToAsManyAsTheLimitAllows) {
  constexpr Limit kMany = concurrency(65535).lease(1h);
  PermitId middle;
  for (int i = 0; i < 65535; ++i) {
    const PermitId id = PermitId::random();
    if (i == 30000) middle = id;
    const Charge charge{.key = "many", .limit = kMany, .permit = &id};
    ASSERT_TRUE(store_.apply_one(Verb::kTake, charge, Instant{Duration{i}})) << i;
  }
  const Charge charge{.key = "many", .limit = kMany, .permit = &middle};
  EXPECT_EQ(left("many", kMany, 1s), 0u);
  EXPECT_LE(store_.stats().log_bytes, 65535u * 24 + 100);
  EXPECT_TRUE(store_.apply_one(Verb::kRelease, charge, Instant{1s}));
  EXPECT_EQ(left("many", kMany, 1s), 1u);
  EXPECT_EQ(left("many", kMany, 1h), 2u);
}

}  // namespace
}  // namespace sluice
