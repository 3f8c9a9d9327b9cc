#include <algorithm>
#include <array>
#include <memory>

#include "sluice/memory_store.h"
#include "tests/redis/script_test.h"
#include "tests/support/random_cases.h"

// A take in one slot is undone exactly if another slot denies the request.
namespace sluice_redis {
namespace {

using sluice::Decision;
using sluice::testing::random_cases;
using sluice_oracle::Algorithm;
using sluice_oracle::Spec;
using sluice_property::Answered;
using sluice_property::Dice;
using sluice_property::Step;

std::unique_ptr<sluice::Store> make_memory_store() {
  return std::make_unique<sluice::MemoryStore>(
      sluice::MemoryStoreOptions{.max_keys = 1024, .shards = 1});
}

class Undo : public ScriptTest {
 protected:
  static constexpr std::array<const char*, 4> kKeys = {"a", "b", "c", "d"};

  std::string fresh_prefix() { return "u" + std::to_string(++prefixes_) + ":"; }

  // Returns one limit per key. Excludes the hybrid, whose log of an older slice cannot be restored.
  static std::vector<Spec> random_specs(Dice& dice) {
    std::vector<Spec> specs;
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      const Algorithm algorithm =
          dice.any_of({Algorithm::kTokenBucket, Algorithm::kLeakyBucket, Algorithm::kGcra,
                       Algorithm::kFixedWindow, Algorithm::kSlidingWindowLog,
                       Algorithm::kSlidingWindowCounter});
      specs.push_back(random_spec(dice, algorithm));
    }
    return specs;
  }

  static Step random_step(Dice& dice, const std::vector<Spec>& specs, std::int64_t now) {
    using sluice_oracle::Verb;
    Step step{.verb = Verb::kTake, .charges = {}, .at_us = now};
    if (dice.chance(20)) step.verb = dice.any_of({Verb::kPeek, Verb::kRefund, Verb::kReset});
    for (std::uint64_t charges = 1 + dice.below(4); charges > 0; --charges) {
      const std::size_t key = dice.below(kKeys.size());
      step.charges.push_back({kKeys[key], specs[key], random_cost(dice, specs[key])});
    }
    return step;
  }

  static std::int64_t random_move(Dice& dice, const Spec& spec) {
    const std::int64_t per = spec.per_us;
    const auto limit = static_cast<std::int64_t>(std::max<std::uint64_t>(spec.limit, 1));
    return dice.any_of<std::int64_t>({0, 0, 1, per / limit, per / limit / 2, dice.between(0, per),
                                      dice.between(0, per / 10), per});
  }

  static std::uint64_t random_cost(Dice& dice, const Spec& spec) {
    const std::uint64_t most = sluice_oracle::capacity(spec);
    return dice.any_of<std::uint64_t>({0, 1, 1, 2, 1 + most / 2, most, 1 + dice.below(most + 1)});
  }

  // Returns the number of undone takes.
  template <typename Counter>
  static std::size_t interleave(Dice& dice, Counter& counter, const Spec& spec, std::int64_t now) {
    std::size_t given_back = 0;
    for (int i = 0; i < 40 && !HasFailure(); ++i) {
      now += random_move(dice, spec);
      const std::uint64_t cost = random_cost(dice, spec);
      if (dice.chance(30)) {
        counter.take_for_now(now, cost);
      } else if (dice.chance(40) && counter.has_taken_for_now()) {
        counter.give_back(dice.below(40));
        ++given_back;
      } else {
        counter.take(now, cost);
      }
      counter.compare(now);
    }
    return given_back;
  }

  std::size_t prefixes_ = 0;
};

// Requests with several slots have the same answers as from a store with all counters in one place.
TEST_F(Undo, LeavesCountersOfSeveralSlotsAsIfNothingHadBeenTaken) {
  Dice dice(11);
  std::size_t denied = 0;
  const std::size_t histories = random_cases(60, 200);
  for (std::size_t i = 0; i < histories && !HasFailure(); ++i) {
    const std::vector<Spec> specs = random_specs(dice);
    PlanStore redis(redis_, fresh_prefix(), /*by_slot=*/true);
    const auto memory = make_memory_store();
    sluice_property::History steps;
    std::int64_t now = kStart;
    for (int step = 0; step < 40 && !HasFailure(); ++step) {
      now += random_move(dice, specs[dice.below(specs.size())]);
      steps.push_back(random_step(dice, specs, now));
      const Answered expected = apply(*memory, steps.back());
      const Answered actual = apply(redis, steps.back());
      EXPECT_EQ(redis.error(), "") << to_json_lines(steps);
      EXPECT_EQ(expected.request, actual.request) << to_json_lines(steps);
      EXPECT_EQ(expected.each, actual.each) << to_json_lines(steps);
      denied += static_cast<std::size_t>(!expected.request.allowed());
    }
  }
  EXPECT_GT(denied, 5 * histories);
}

// Takes on one counter, some undone after later takes, and a second store that receives the takes
// that Redis admitted and kept. If the second store denies one, Redis admitted too much.
class Interleaving {
 public:
  Interleaving(ScriptConnection& connection, std::string prefix, const Spec& spec)
      : connection_(connection),
        prefix_(std::move(prefix)),
        redis_(connection, prefix_, /*by_slot=*/true),
        spec_(spec),
        limit_(sluice_property::limit_of(spec)) {}

  void take(std::int64_t now, std::uint64_t cost) {
    told_ += std::to_string(now) + " take " + std::to_string(cost) + "\n";
    if (!apply(redis_, now, cost)) return;
    EXPECT_TRUE(apply(*memory_, now, cost)) << sluice_property::to_json(spec_) << "\n" << told_;
  }

  void take_for_now(std::int64_t now, std::uint64_t cost) {
    told_ += std::to_string(now) + " take for now " + std::to_string(cost) + "\n";
    auto take = std::make_unique<Taken>();
    take->charges.push_back({"key", limit_, cost});
    ASSERT_TRUE(take->plan.begin({.prefix = prefix_, .by_slot = true}, sluice::Verb::kTake,
                                 take->charges, instant(now)));
    PlainCommand command;
    take->plan.write(0, command);
    const Reply reply = run(command);
    if (take->plan.read(0, *reply) == sluice::redis::Plan::Read::kAllowed) {
      taken_.push_back(std::move(take));
    }
  }

  // No counter in Redis has more units left than in the store that never saw the undone takes.
  void compare(std::int64_t now) {
    const Decision here = sluice::Limiter(redis_).peek("key", limit_, 0, instant(now));
    const Decision there = sluice::Limiter(*memory_).peek("key", limit_, 0, instant(now));
    EXPECT_LE(here.remaining, there.remaining) << sluice_property::to_json(spec_) << "\n" << told_;
    EXPECT_GE(here.reset_after, there.reset_after) << sluice_property::to_json(spec_) << "\n"
                                                   << told_;
  }

  bool has_taken_for_now() const { return !taken_.empty(); }

  void give_back(std::size_t which) {
    const auto taken = taken_.begin() + static_cast<std::ptrdiff_t>(which % taken_.size());
    told_ += "give back " + std::to_string((*taken)->charges[0].cost) + "\n";
    PlainCommand command;
    (*taken)->plan.write_undo(0, command);
    run(command);
    taken_.erase(taken);
  }

 private:
  struct Taken {
    sluice::redis::Plan plan;
    std::vector<sluice::Charge> charges;
  };

  Reply run(PlainCommand& command) {
    connection_.send(command);
    Reply reply = connection_.next();
    EXPECT_NE(reply->type, Reply::kError) << RedisConnection::text(reply);
    return reply;
  }

  bool apply(sluice::Store& store, std::int64_t now, std::uint64_t cost) const {
    return sluice::Limiter(store).try_acquire("key", limit_, cost, instant(now)).allowed();
  }

  ScriptConnection& connection_;
  std::string prefix_;
  PlanStore redis_;
  std::unique_ptr<sluice::Store> memory_ = make_memory_store();
  Spec spec_;
  sluice::Limit limit_;
  std::vector<std::unique_ptr<Taken>> taken_;
  std::string told_;
};

// The limits for which a state with more consumed units never admits more. Windows and refills that
// begin with their first use, and summaries, depend on the time of that use.
Spec random_monotonous_spec(Dice& dice) {
  for (;;) {
    Spec spec = random_spec(
        dice, dice.any_of({Algorithm::kTokenBucket, Algorithm::kLeakyBucket, Algorithm::kGcra,
                           Algorithm::kFixedWindow, Algorithm::kSlidingWindowLog,
                           Algorithm::kSlidingWindowCounter}));
    if (spec.algorithm == Algorithm::kFixedWindow) spec.align = sluice_oracle::Align::kClock;
    if (spec.refill) spec.refill = sluice_oracle::Refill::kContinuous;
    if (is_valid(spec)) return spec;
  }
}

TEST_F(Undo, AdmitsNoMoreThanWithoutTheTakeAndTheUndo) {
  Dice dice(12);
  std::size_t given_back = 0;
  const std::size_t histories = random_cases(150, 600);
  for (std::size_t i = 0; i < histories && !HasFailure(); ++i) {
    const Spec spec = random_monotonous_spec(dice);
    Interleaving counter(redis_, fresh_prefix(), spec);
    given_back += interleave(dice, counter, spec, kStart);
  }
  EXPECT_GT(given_back, histories);
}

// The same for tokens refilled at intervals, with a counter that is never fully replenished. The
// refills then come at the same times.
TEST_F(Undo, OfAnIntervalBucketAdmitsNoMoreEither) {
  Dice dice(14);
  std::size_t given_back = 0;
  const std::size_t histories = random_cases(80, 300);
  for (std::size_t i = 0; i < histories && !HasFailure(); ++i) {
    const Spec spec{.algorithm = Algorithm::kTokenBucket,
                    .limit = 1 + dice.below(5),
                    .per_us = dice.between(1000, 1000000),
                    .burst = 1000,
                    .refill = sluice_oracle::Refill::kInterval};
    Interleaving counter(redis_, fresh_prefix(), spec);
    counter.take(kStart, 500);
    given_back += interleave(dice, counter, spec, kStart);
  }
  EXPECT_GT(given_back, histories);
}

// An undo cannot restore the log of a slice that has become a summary, but is exact in one slice.
TEST_F(Undo, OfAHybridWithinOneSliceRestoresItsState) {
  Dice dice(13);
  for (int history = 0; history < 50; ++history) {
    const sluice::Limit limit =
        sluice::sliding_window_hybrid(1 + dice.below(30)).per(std::chrono::hours{1}).slices(2);
    const sluice::Limit ban = sluice::token_bucket(0).per(std::chrono::hours{1});
    PlanStore redis(redis_, fresh_prefix(), /*by_slot=*/true);
    const auto memory = make_memory_store();
    std::int64_t now = 1700000000000000 / 3600000000 * 3600000000;
    for (int i = 0; i < 40; ++i) {
      now += dice.between(0, 1000);
      std::vector<sluice::Charge> charges = {{"a", limit, 1 + dice.below(4)}};
      if (dice.chance(50)) charges.push_back({"b", ban, 1});
      std::vector<Decision> expected(charges.size());
      std::vector<Decision> actual(charges.size());
      memory->apply(sluice::Verb::kTake, charges, instant(now), expected);
      redis.apply(sluice::Verb::kTake, charges, instant(now), actual);
      ASSERT_EQ(redis.error(), "");
      ASSERT_EQ(expected, actual);
    }
  }
}

TEST_F(Undo, OfALongLogRestoresItsState) {
  Dice dice(15);
  const sluice::Limit limit = sluice::sliding_window_log(500).per(std::chrono::seconds{1});
  const sluice::Limit ban = sluice::token_bucket(0).per(std::chrono::hours{1});
  PlanStore redis(redis_, fresh_prefix(), /*by_slot=*/true);
  const auto memory = make_memory_store();
  std::int64_t now = kStart;
  for (std::size_t i = 0; i < random_cases(2000, 5000); ++i) {
    now += dice.between(0, 3000);
    std::vector<sluice::Charge> charges = {{"a", limit, 1 + dice.below(2)}};
    if (dice.chance(30)) charges.push_back({"b", ban, 1});
    std::vector<Decision> expected(charges.size());
    std::vector<Decision> actual(charges.size());
    memory->apply(sluice::Verb::kTake, charges, instant(now), expected);
    redis.apply(sluice::Verb::kTake, charges, instant(now), actual);
    ASSERT_EQ(redis.error(), "");
    ASSERT_EQ(expected, actual) << i;
  }
}

TEST_F(Undo, AtTheServersTimeGivesBackTheUnits) {
  for (const sluice::Limit& limit : every_kind(10, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    PlanStore redis(redis_, fresh_prefix(), /*by_slot=*/true);
    const sluice::Limit ban = sluice::token_bucket(0).per(std::chrono::hours{1});
    const std::array<sluice::Charge, 2> charges = {{{"a", limit, 4}, {"b", ban, 1}}};
    std::array<Decision, 2> each;
    EXPECT_TRUE(sluice::Limiter(redis).try_acquire("a", limit, 3));
    const Decision denied = redis.apply(sluice::Verb::kTake, charges, std::nullopt, each);
    EXPECT_EQ(denied.reason, sluice::Reason::kNever);
    EXPECT_EQ(redis.error(), "");
    // A limit of ten a year drains less than a unit in a few seconds. The undo does not give it
    // back, because the counter may not contain it.
    const std::uint64_t remaining = sluice::Limiter(redis).peek("a", limit, 0).remaining;
    EXPECT_GE(remaining, 6u);
    EXPECT_LE(remaining, 7u);
  }
}

TEST_F(Undo, OfACounterThatIsGoneChangesNothing) {
  for (const sluice::Limit& limit : every_kind(10, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    const std::array<sluice::Charge, 1> charges = {{{"key", limit, 4}}};
    sluice::redis::Plan plan;
    ASSERT_TRUE(plan.begin({.prefix = std::string(kPrefix), .by_slot = true}, sluice::Verb::kTake,
                           charges, instant(kStart)));
    PlainCommand command;
    plan.write(0, command);
    redis_.send(command);
    ASSERT_EQ(plan.read(0, *redis_.next()), sluice::redis::Plan::Read::kAllowed);
    plan.write_undo(0, command);

    limiter_.reset("key", limit);
    redis_.send(command);
    EXPECT_NE(redis_.next()->type, Reply::kError);
    EXPECT_EQ(number({"EXISTS", key}), 0);

    redis_.run({"SET", key, "not a counter"});
    redis_.send(command);
    redis_.next();  // the result is not used
    EXPECT_EQ(redis_.text({"GET", key}), "not a counter");
    redis_.run({"DEL", key});
  }
}

}  // namespace
}  // namespace sluice_redis
