#include <array>
#include <string>
#include <vector>

#include "sluice/permit_id.h"
#include "stores/redis/script/format.h"
#include "tests/redis/script_test.h"
#include "tests/support/random_cases.h"

// Permits of `concurrency` limits in Redis. tests/redis/differential_test.cc compares their answers
// with those of the oracle.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Charge;
using sluice::Decision;
using sluice::PermitId;
using sluice::Reason;
using sluice::Verb;
using sluice::testing::random_cases;

constexpr PermitId id_of(std::uint8_t number) {
  return PermitId(PermitId::Bytes{number, 0, 0xFF, '\n'});
}

class Permits : public ScriptTest {
 protected:
  static constexpr sluice::Limit kTwo = sluice::concurrency(2).lease(1h);
  const std::string key_ = redis_key(kPrefix, sluice::Algorithm::kConcurrency, "key");

  Decision one(sluice::Action action, const PermitId& id, const sluice::Limit& limit = kTwo,
               std::optional<sluice::Instant> at = {}) {
    const Charge charge{.key = "key", .limit = limit, .permit = &id};
    return limiter_.apply(action, {&charge, 1}, {}, at);
  }
  std::uint64_t left(std::string_view key) { return limiter_.peek(key, kTwo, 0).remaining; }
};

TEST_F(Permits, HoldUnitsUntilTheyAreReleased) {
  EXPECT_EQ(one(Verb::kTake, id_of(1)).remaining, 1u) << store_.error();
  EXPECT_EQ(one(Verb::kTake, id_of(2)).remaining, 0u);
  const Decision denied = one(Verb::kTake, id_of(3));
  EXPECT_EQ(denied.reason, Reason::kLimited);
  EXPECT_LE(denied.retry_after, sluice::Duration{1h});
  EXPECT_TRUE(one(Verb::kExtend, id_of(1)));
  EXPECT_EQ(one(Verb::kRelease, id_of(1)).remaining, 1u);
  EXPECT_EQ(one(Verb::kRelease, id_of(1)).reason, Reason::kGone);
  EXPECT_EQ(one(Verb::kExtend, id_of(1)).reason, Reason::kGone);
  EXPECT_TRUE(one(Verb::kTake, id_of(3)));
}

// The holder has died: its units come back at the end of the lease, and Redis forgets them.
TEST_F(Permits, ComeBackAtTheEndOfTheLease) {
  const sluice::Limit brief = sluice::concurrency(1).lease(100ms);
  const std::int64_t before = server_time();
  ASSERT_TRUE(one(Verb::kTake, id_of(1), brief));
  EXPECT_GT(number({"PTTL", key_}), 0);
  EXPECT_LE(number({"PTTL", key_}), 102);
  while (!one(Verb::kTake, id_of(2), brief) && server_time() < before + 60'000'000) {
  }
  EXPECT_GE(server_time(), before + 100'000);
  EXPECT_LT(server_time(), before + 60'000'000);
}

TEST_F(Permits, UseAtMost24BytesEachAndLeaveWhenTheyHaveEnded) {
  const sluice::Limit many = sluice::concurrency(200).lease(1min);
  for (std::uint8_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(one(Verb::kTake, id_of(i), many, instant(kStart + i)));
  }
  const std::int64_t bytes = number({"STRLEN", key_});
  EXPECT_EQ(bytes, 27 + 21 * 100);
  EXPECT_LE(bytes, 24 * 100);
  EXPECT_EQ(one(Verb::kTake, id_of(101), many, instant(kStart + 60'000'099)).remaining, 198u);
  EXPECT_EQ(number({"STRLEN", key_}), 27 + 21 * 2);
}

TEST_F(Permits, DoNotEndEarlyIfTheClockGoesBack) {
  ASSERT_TRUE(one(Verb::kTake, id_of(1), kTwo, instant(kStart)));
  ASSERT_TRUE(one(Verb::kTake, id_of(2), kTwo, instant(kStart - 1'000'000)));
  const Decision denied = one(Verb::kTake, id_of(3), kTwo, instant(kStart - 5'000'000));
  EXPECT_EQ(denied.retry_after, sluice::Duration{1h});
}

TEST_F(Permits, AreAllOrNothingWithOtherLimits) {
  const sluice::Limit bucket = sluice::token_bucket(1).per(1h);
  const PermitId id = id_of(1);
  const std::array charges{Charge{.key = "key", .limit = kTwo, .permit = &id},
                           Charge{.key = "key", .limit = bucket}};
  EXPECT_TRUE(limiter_.check(charges)) << store_.error();
  EXPECT_FALSE(limiter_.check(charges));
  EXPECT_EQ(left("key"), 1u);
}

TEST_F(Permits, AreAllOrNothingOverSlots) {
  PlanStore store(redis_, std::string(kPrefix), true);
  sluice::Limiter limiter(store);
  const PermitId first = id_of(1);
  const PermitId second = id_of(2);
  const auto both = [](const PermitId& id) {
    return std::array{Charge{.key = "a", .limit = kTwo, .permit = &id},
                      Charge{.key = "b", .limit = kTwo, .permit = &id}};
  };
  const Charge two{.key = "b", .limit = kTwo, .cost = 2, .permit = &first};
  ASSERT_TRUE(limiter.apply(Verb::kTake, {&two, 1}));
  EXPECT_FALSE(limiter.check(both(second)));
  EXPECT_EQ(left("a"), 2u) << "the permit of a denied request is given back";
  EXPECT_EQ(left("b"), 0u);
  EXPECT_TRUE(limiter.apply(Verb::kRelease, both(first))) << "it is live in one of them";
  EXPECT_EQ(limiter.apply(Verb::kRelease, both(first)).reason, Reason::kGone);
  EXPECT_TRUE(limiter.check(both(second)));
  EXPECT_TRUE(limiter.apply(Verb::kRelease, both(second)));
  EXPECT_EQ(left("a") + left("b"), 4u);
}

TEST_F(Permits, AreExtendedInAllSlotsOrInNone) {
  PlanStore store(redis_, std::string(kPrefix), true);
  sluice::Limiter limiter(store);
  const PermitId id = id_of(1);
  const PermitId other = id_of(2);
  const std::array both{Charge{.key = "a", .limit = kTwo, .permit = &id},
                        Charge{.key = "b", .limit = kTwo, .permit = &id}};
  const auto reset_of = [&](const char* key, sluice::Instant now) {
    return limiter.peek(key, kTwo, 0, now).reset_after;
  };
  const sluice::Instant start{sluice::Duration{server_time()}};
  ASSERT_TRUE(limiter.apply(Verb::kTake, both, {}, start)) << store.error();
  ASSERT_TRUE(limiter.apply(Verb::kRelease, std::span(both).last(1), {}, start));
  const Charge brief{.key = "a", .limit = sluice::concurrency(2).lease(40min), .permit = &other};
  ASSERT_TRUE(limiter.apply(Verb::kTake, {&brief, 1}, {}, start));
  const sluice::Instant later = start + 30min;
  EXPECT_EQ(limiter.apply(Verb::kExtend, both, {}, later).reason, Reason::kGone);
  EXPECT_EQ(store.error(), "");
  EXPECT_EQ(reset_of("a", later), 30min) << "its lease ends when it did before";
  EXPECT_EQ(left("a"), 0u);
  ASSERT_TRUE(limiter.apply(Verb::kExtend, std::span(both).first(1), {}, later));
  EXPECT_EQ(reset_of("a", later), 1h);
  EXPECT_EQ(limiter.apply(Verb::kExtend, both, {}, later + 20min).reason, Reason::kGone);
  EXPECT_EQ(reset_of("a", later + 20min), 40min) << "the other permit has ended";
}

TEST_F(Permits, AreInvalidWithoutAName) {
  for (const Verb verb : {Verb::kTake, Verb::kTakeAtMost, Verb::kReserve, Verb::kRelease}) {
    const Charge charge{.key = "key", .limit = kTwo};
    EXPECT_EQ(limiter_.apply(verb, {&charge, 1}).reason, Reason::kInvalid);
  }
  EXPECT_EQ(one(Verb::kCharge, id_of(1)).reason, Reason::kInvalid);
  EXPECT_EQ(one(Verb::kRelease, id_of(1), sluice::token_bucket(1).per(1s)).reason,
            Reason::kInvalid);
}

TEST_F(Permits, OfAnotherKindOrSizeAreForeign) {
  ASSERT_TRUE(one(Verb::kTake, id_of(1)));
  const std::string good = redis_.text({"GET", key_});
  const std::vector<std::string> values = {"", good + "x", good.substr(0, 27),
                                           "x" + good.substr(1)};
  for (const std::string& value : values) {
    redis_.run({"SET", key_, value});
    for (const Verb verb : {Verb::kTake, Verb::kRelease, Verb::kReset}) {
      EXPECT_EQ(one(verb, id_of(1)).reason, Reason::kForeignValue) << value.size();
    }
    EXPECT_EQ(redis_.text({"GET", key_}), value);
  }
}

// Damaged bytes are refused, or make a decision that a caller can use.
TEST_F(Permits, OfDamagedBytesMakeNoScriptFail) {
  sluice_property::Dice dice(3);
  for (std::uint8_t i = 1; i <= 2; ++i) ASSERT_TRUE(one(Verb::kTake, id_of(i)));
  const std::string good = redis_.text({"GET", key_});
  for (std::size_t i = 0; i < random_cases(800, 3000); ++i) {
    std::string bytes = good;
    bytes[2 + dice.below(bytes.size() - 2)] = static_cast<char>(dice.below(256));
    redis_.run({"SET", key_, bytes});
    const Verb verb = dice.any_of({Verb::kTake, Verb::kPeek, Verb::kRelease, Verb::kExtend,
                                   Verb::kRefund, Verb::kTakeAtMost});
    const Decision said = one(verb, id_of(static_cast<std::uint8_t>(1 + dice.below(3))));
    ASSERT_TRUE(store_.error().find("ERR") == std::string::npos) << store_.error();
    ASSERT_LE(said.remaining, 2u);
  }
}

}  // namespace
}  // namespace sluice_redis
