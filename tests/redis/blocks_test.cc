#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "sluice/block.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/state_reader.h"
#include "tests/oracle/blocks.h"
#include "tests/redis/script_test.h"
#include "tests/support/random_cases.h"

// Blocks in Redis, and random histories with blocks on the oracle, the memory store and Redis.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Block;
using sluice::Charge;
using sluice::Decision;
using sluice::Reason;
using sluice::Verb;
using sluice::testing::random_cases;
using sluice_oracle::BlockedCharge;
using sluice_property::Dice;

const Block kBlock =
    *Block::make({.after = 2, .within = 10min, .time = 15min, .growth = 200, .at_most = 24h});
constexpr sluice::Limit kOne = sluice::fixed_window(1).per(1h);

class Blocks : public ScriptTest {
 protected:
  const std::string key_ = std::string(kPrefix) + "xf{}key";

  static Charge charge(std::string_view key = "key", const sluice::Limit& limit = kOne) {
    return {.key = key, .limit = limit, .block = &kBlock};
  }
  Decision ask(sluice::Action action, const Charge& one, std::optional<sluice::Instant> at = {}) {
    return limiter_.apply(action, {&one, 1}, {}, at);
  }
  Decision take(std::optional<sluice::Instant> at = {}) { return ask(Verb::kTake, charge(), at); }
};

TEST_F(Blocks, StartAtTheLastDenialAndEndExactly) {
  EXPECT_TRUE(take(instant(kStart))) << store_.error();
  EXPECT_EQ(take(instant(kStart)).reason, Reason::kLimited) << store_.error();
  const std::int64_t start = kStart + 3'600'000'000 - 1;
  ask(Verb::kUnblock, charge(), instant(start));
  EXPECT_EQ(take(instant(start)).reason, Reason::kLimited);
  const Decision second = take(instant(start));
  EXPECT_EQ(second.reason, Reason::kBlocked) << store_.error();
  EXPECT_TRUE(second.starts_block);
  EXPECT_EQ(second.retry_after, 15min);
  EXPECT_EQ(take(instant(start + 900'000'000 - 1)).retry_after, 1us);
  EXPECT_TRUE(take(instant(start + 900'000'000)));
}

TEST_F(Blocks, AreWrittenByDenialsOnly) {
  take();
  EXPECT_EQ(number({"EXISTS", key_}), 0);
  take();
  EXPECT_EQ(number({"STRLEN", key_}), 29 + 7);
  EXPECT_GT(number({"PTTL", key_}), 0);
  EXPECT_LE(number({"PTTL", key_}), 600'001);
  take();
  EXPECT_EQ(number({"STRLEN", key_}), 29);
  const std::string before = dump(key_);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(take().reason, Reason::kBlocked);
  EXPECT_EQ(dump(key_), before) << "a request of a blocked key changes nothing";
}

TEST_F(Blocks, CostABlockedKeyOneScriptCallThatWritesNothing) {
  ask({Verb::kBlock, 1h}, charge());
  const auto calls_of = [&](std::string_view command) {
    const std::string info = redis_.text({"INFO", "commandstats"});
    const std::string name = "cmdstat_" + std::string(command) + ":calls=";
    const std::size_t found = info.find(name);
    return found == info.npos ? 0 : std::stoi(info.substr(found + name.size()));
  };
  take();
  const int scripts = calls_of("evalsha");
  const int writes = calls_of("set");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(take().reason, Reason::kBlocked);
  EXPECT_EQ(calls_of("evalsha"), scripts + 10);
  EXPECT_EQ(calls_of("set"), writes);
}

TEST_F(Blocks, AreForgottenWithACounterThatIsReset) {
  take();
  take();
  take();
  EXPECT_TRUE(ask(Verb::kReset, charge()));
  EXPECT_EQ(number({"EXISTS", key_}), 0);
  EXPECT_TRUE(take());
}

TEST_F(Blocks, StartAndEndByHand) {
  const Decision said = ask({Verb::kBlock, 1h}, charge());
  EXPECT_TRUE(said) << store_.error();
  EXPECT_EQ(said.reset_after, 1h);
  EXPECT_EQ(take().reason, Reason::kBlocked);
  EXPECT_TRUE(ask(Verb::kUnblock, charge()));
  EXPECT_EQ(number({"EXISTS", key_}), 0);
  EXPECT_TRUE(take());
}

TEST_F(Blocks, ServeEveryAlgorithm) {
  for (const sluice::Limit& limit : every_kind(1, 1h)) {
    const std::string name(to_string(limit.algorithm()));
    ask(Verb::kReset, charge("each", limit));
    EXPECT_TRUE(ask(Verb::kTake, charge("each", limit))) << name << store_.error();
    EXPECT_EQ(ask(Verb::kTake, charge("each", limit)).reason, Reason::kLimited) << name;
    EXPECT_TRUE(ask(Verb::kTake, charge("each", limit)).starts_block) << name << store_.error();
  }
}

// A denial with another reason than `limited` does not count.
TEST_F(Blocks, OfBudgetsCountOnlyWhatIsLimited) {
  const Block block = *Block::make({.after = 1, .within = 10s, .time = 1h});
  const sluice::Limit limit = sluice::budget(100).never().holds(1);
  const auto ask_for = [&](std::string_view key, sluice::Action action, std::string_view id,
                           std::uint64_t cost) {
    const sluice::PermitId name = sluice::PermitId::named(id);
    const Charge one{.key = key,
                     .limit = limit,
                     .cost = cost,
                     .permit = id.empty() ? nullptr : &name,
                     .block = &block};
    return ask(action, one).reason;
  };
  EXPECT_EQ(ask_for("taken", Verb::kTake, "x", 1), Reason::kOk);
  EXPECT_EQ(ask_for("taken", Verb::kTake, "x", 2), Reason::kConflict) << store_.error();
  EXPECT_EQ(ask_for("taken", Verb::kTake, "y", 1), Reason::kOk) << store_.error();
  EXPECT_EQ(ask_for("held", {Verb::kHold, 1min}, "x", 1), Reason::kOk);
  EXPECT_EQ(ask_for("held", {Verb::kHold, 1min}, "x", 2), Reason::kConflict) << store_.error();
  EXPECT_EQ(ask_for("held", {Verb::kHold, 1min}, "y", 1), Reason::kTooManyHolds);
  EXPECT_EQ(ask_for("held", Verb::kCancel, "x", 0), Reason::kOk) << store_.error();
  EXPECT_EQ(ask_for("held", {Verb::kHold, 1min}, "z", 1), Reason::kOk) << store_.error();
  EXPECT_EQ(ask_for("used up", Verb::kTake, "", 60), Reason::kOk);
  EXPECT_EQ(ask_for("used up", Verb::kTake, "", 60), Reason::kNever) << store_.error();
  EXPECT_EQ(ask_for("used up", Verb::kTake, "", 1), Reason::kOk) << store_.error();
}

// docs/reference/state-format.md shows these bytes.
TEST_F(Blocks, AreStoredAsDocumented) {
  const Block three = *Block::make({.after = 3, .within = 10min, .time = 15min});
  const Charge alice{.key = "alice", .limit = sluice::fixed_window(1).per(1h), .block = &three};
  ask(Verb::kTake, alice, instant(kStart));
  ask(Verb::kTake, alice, instant(kStart));
  ask(Verb::kTake, alice, instant(kStart + 1'500'000));
  const std::string value = redis_.text({"GET", std::string(kPrefix) + "xf{}alice"});
  std::string hex;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  EXPECT_EQ(hex,
            "c117"
            "a0053718240a06"
            "00000000000000"
            "000000000000"
            "a04bfa3b240a06"
            "40222018240a06"
            "a0053718240a06");
  const auto state = sluice::redis::read_block_state(value);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->summary, "2 denials");
  EXPECT_EQ(state->details.at(1), "2023-11-14T22:13:21.623456Z: a denial");
  ask({Verb::kBlock, 1h}, alice, instant(kStart));
  const std::string blocked = redis_.text({"GET", std::string(kPrefix) + "xf{}alice"});
  EXPECT_EQ(sluice::redis::read_block_state(blocked)->summary,
            "blocked until 2023-11-14T23:13:21.623456Z");
  EXPECT_FALSE(sluice::redis::read_block_state(value.substr(1)));
}

TEST_F(Blocks, NeverOverwriteAForeignValue) {
  redis_.run({"RPUSH", key_, "theirs"});
  take();
  EXPECT_EQ(take().reason, Reason::kForeignValue);
  EXPECT_EQ(redis_.text({"TYPE", key_}), "list");
  EXPECT_EQ(ask(Verb::kReset, charge()).reason, Reason::kForeignValue);
  EXPECT_EQ(redis_.text({"TYPE", key_}), "list");
  redis_.run({"SET", key_, "theirs"});
  EXPECT_EQ(take().reason, Reason::kForeignValue);
  EXPECT_EQ(ask(Verb::kReset, charge()).reason, Reason::kForeignValue);
  EXPECT_EQ(redis_.text({"GET", key_}), "theirs");
}

TEST_F(Blocks, OfAFullServerStayAndNoneStart) {
  take();
  ask({Verb::kBlock, 1h}, charge("blocked"));
  redis_.run({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(ask(Verb::kTake, charge("blocked")).reason, Reason::kBlocked) << store_.error();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(take().reason, Reason::kLimited) << store_.error();
  EXPECT_EQ(ask({Verb::kBlock, 1h}, charge("new")).reason, Reason::kStoreFull);
  redis_.run({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(number({"EXISTS", key_}), 0);
}

// Of the denials of one request, only those of keys with earlier ones.
TEST_F(Blocks, OfAFullServerCountDenialsOfKeysThatHaveSome) {
  const std::array<Charge, 2> both{charge(), charge("new")};
  ASSERT_TRUE(limiter_.apply(Verb::kTake, both, {}));
  ASSERT_EQ(take().reason, Reason::kLimited) << store_.error();
  redis_.run({"CONFIG", "SET", "maxmemory", "1"});
  const Decision second = limiter_.apply(Verb::kTake, both, {});
  EXPECT_EQ(second.reason, Reason::kBlocked) << store_.error();
  EXPECT_TRUE(second.starts_block);
  EXPECT_GT(number({"PTTL", key_}), 0);
  EXPECT_EQ(take().reason, Reason::kBlocked) << store_.error();
  EXPECT_EQ(ask({Verb::kBlock, 1h}, charge()).reason, Reason::kOk) << store_.error();
  redis_.run({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(number({"EXISTS", std::string(kPrefix) + "xf{}new"}), 0);
}

TEST_F(Blocks, OfAFullServerLetExistingCountersCount) {
  constexpr sluice::Limit kThree = sluice::fixed_window(3).per(1h);
  const std::array<Charge, 2> both{charge("one", kThree), charge("two", kThree)};
  for (const std::size_t count : {1, 2}) {
    const std::span<const Charge> charges(both.data(), count);
    limiter_.apply(Verb::kReset, charges, {});
    ASSERT_TRUE(limiter_.apply(Verb::kTake, charges, {}));
    redis_.run({"CONFIG", "SET", "maxmemory", "1"});
    EXPECT_EQ(limiter_.apply(Verb::kTake, charges, {}).remaining, 1u) << store_.error();
    EXPECT_TRUE(limiter_.apply(Verb::kTake, charges, {}));
    EXPECT_EQ(limiter_.apply(Verb::kTake, charges, {}).reason, Reason::kLimited) << store_.error();
    redis_.run({"CONFIG", "SET", "maxmemory", "0"});
  }
}

TEST_F(Blocks, AreInTheSlotOfTheirCounters) {
  sluice::redis::Plan plan;
  const sluice::redis::RequestOptions options{.prefix = "test:", .by_slot = true};
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key}" + std::to_string(i);
    const std::string tag = i % 2 == 0 ? std::string() : "tag" + std::to_string(i / 4);
    const Charge one{.key = key, .limit = kOne, .tag = tag, .block = &kBlock};
    ASSERT_TRUE(plan.begin(options, Verb::kTake, {&one, 1}, {}));
    PlainCommand command;
    plan.write(0, command);
    // "2", the key of the counter and that of the block, each with its size before it.
    std::vector<std::string> words;
    for (std::size_t at = 0; words.size() < 3;) {
      const std::size_t end = command.tail.find("\r\n", at);
      const std::size_t size = std::stoul(command.tail.substr(at + 1, end - at - 1));
      words.push_back(command.tail.substr(end + 2, size));
      at = end + 2 + size + 2;
    }
    EXPECT_EQ(words[0], "2");
    EXPECT_EQ(sluice::redis::slot_of(words[1]), sluice::redis::slot_of(words[2])) << words[2];
  }
}

// A random history with blocks on three stores.
class BlockHistories : public ScriptTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  struct Key {
    std::string name;
    sluice_oracle::Spec spec;
    std::optional<sluice_oracle::BlockSpec> told;
    std::optional<Block> block;
  };

  static std::int64_t some_time(Dice& dice) { return 1000 * dice.between(1, 40); }

  static Key random_key(Dice& dice, std::string name) {
    Key key{std::move(name), random_spec(dice, sluice_property::random_algorithm(dice)), {}, {}};
    key.spec.limit = static_cast<std::uint64_t>(dice.between(0, 3));
    if (!key.spec.calendar) key.spec.per_us = some_time(dice);
    if (key.spec.burst) key.spec.burst = static_cast<std::uint64_t>(dice.between(1, 3));
    if (dice.chance(20)) return key;
    const std::int64_t first = some_time(dice);
    const std::int64_t hundredths = dice.any_of<std::int64_t>({100, 101, 150, 200, 333, 10'000});
    key.told = sluice_oracle::BlockSpec{
        .after = dice.between(1, 4),
        .within_us = some_time(dice),
        .for_us = first,
        .grow = sluice_oracle::Rational(hundredths, 100),
        .at_most_us = first + dice.any_of<std::int64_t>({0, 1000, 50'000})};
    key.block = *Block::make({.after = static_cast<std::uint64_t>(key.told->after),
                              .within = sluice::Duration{key.told->within_us},
                              .time = sluice::Duration{first},
                              .growth = static_cast<std::uint64_t>(hundredths),
                              .at_most = sluice::Duration{key.told->at_most_us}});
    return key;
  }

  struct Request {
    sluice_oracle::Action told = sluice_oracle::Verb::kTake;
    sluice::Action action = Verb::kTake;
    std::vector<BlockedCharge> oracle_charges;
    std::vector<Charge> charges;
  };

  static Request random_request(Dice& dice, const std::vector<Key>& keys) {
    Request request;
    const std::int64_t wait = dice.between(0, 30'000);
    if (dice.chance(10)) request = {sluice_oracle::Verb::kPeek, Verb::kPeek, {}, {}};
    if (dice.chance(4)) request = {sluice_oracle::Verb::kRefund, Verb::kRefund, {}, {}};
    if (dice.chance(2)) request = {sluice_oracle::Verb::kReset, Verb::kReset, {}, {}};
    if (dice.chance(4)) request = {sluice_oracle::Verb::kCharge, Verb::kCharge, {}, {}};
    if (dice.chance(8)) request = {sluice_oracle::Verb::kTakeAtMost, Verb::kTakeAtMost, {}, {}};
    if (dice.chance(8)) {
      request = {
          {sluice_oracle::Verb::kReserve, wait}, {Verb::kReserve, sluice::Duration{wait}}, {}, {}};
    }
    const bool is_alone =
        request.action.verb == Verb::kTakeAtMost || request.action.verb == Verb::kReserve;
    const std::size_t first = dice.below(keys.size());
    const std::size_t count = is_alone ? 1 : 1 + dice.below(keys.size());
    for (std::size_t i = 0; i < count; ++i) {
      const Key& key = keys[(first + i) % keys.size()];
      const auto cost = static_cast<std::uint64_t>(dice.any_of<int>({0, 1, 1, 1, 1, 2, 3}));
      request.oracle_charges.push_back({{key.name, key.spec, cost}, key.told});
      request.charges.push_back({.key = key.name,
                                 .limit = sluice_property::limit_of(key.spec),
                                 .cost = cost,
                                 .block = key.block ? &*key.block : nullptr});
    }
    return request;
  }

  // Blocks or unblocks a key by hand in all three. Returns whether it did.
  static bool change_by_hand(Dice& dice, const Key& key, sluice_oracle::BlockingOracle& oracle,
                             const std::array<sluice::Store*, 2>& stores, std::int64_t now) {
    if (!key.block || !dice.chance(3)) return false;
    const std::int64_t time = some_time(dice);
    const bool unblocks = dice.chance(40);
    BlockedCharge told;
    told.charge = {key.name, key.spec, 1};
    told.block = key.told;
    unblocks ? oracle.unblock(told) : oracle.block(told, now, time);
    const Charge one{
        .key = key.name, .limit = sluice_property::limit_of(key.spec), .block = &*key.block};
    for (sluice::Store* const store : stores) {
      const sluice::Action action = unblocks ? sluice::Action(Verb::kUnblock)
                                             : sluice::Action(Verb::kBlock, sluice::Duration{time});
      Decision each;
      EXPECT_TRUE(store->apply(action, {&one, 1}, instant(now), {&each, 1}));
    }
    return true;
  }
};

TEST_P(BlockHistories, AreAnsweredAlikeByOracleMemoryAndRedis) {
  Dice dice(GetParam());
  std::size_t blocked = 0;
  const std::size_t histories = random_cases(40, 150);
  for (std::size_t history = 0; history < histories && !HasFailure(); ++history) {
    redis_.run({"FLUSHALL"});
    sluice_oracle::BlockingOracle oracle;
    sluice::MemoryStore memory({.max_keys = 1024, .shards = 1});
    std::vector<Key> keys;
    for (const char* const name : {"a", "b", "c"}) keys.push_back(random_key(dice, name));
    std::int64_t now = kStart;
    for (int step = 0; step < 80 && !HasFailure(); ++step) {
      now += dice.any_of<std::int64_t>({0, 0, 1, 500, some_time(dice) / 4, some_time(dice)});
      if (change_by_hand(dice, keys[dice.below(3)], oracle, {&memory, &store_}, now)) continue;
      const Request request = random_request(dice, keys);
      std::vector<Decision> in_memory(request.charges.size());
      std::vector<Decision> in_redis(request.charges.size());
      const auto told = oracle.apply(request.told, request.oracle_charges, now);
      const sluice_property::Answered from_memory{
          memory.apply(request.action, request.charges, instant(now), in_memory), in_memory};
      const sluice_property::Answered from_redis{
          store_.apply(request.action, request.charges, instant(now), in_redis), in_redis};
      const std::string where = "history " + std::to_string(history) + " step " +
                                std::to_string(step) + " of seed " + std::to_string(GetParam()) +
                                store_.error();
      ASSERT_EQ(sluice_property::difference(told, {from_memory.request, in_memory}), "")
          << where << " in memory";
      ASSERT_EQ(sluice_property::difference(told, {from_redis.request, in_redis}), "")
          << where << " in Redis";
      for (std::size_t i = 0; i < in_memory.size(); ++i)
        ASSERT_EQ(in_memory[i], in_redis[i]) << where;
      blocked += from_redis.request.reason == Reason::kBlocked ? 1 : 0;
    }
  }
  EXPECT_GT(blocked, 10 * histories / 3) << "the histories say too little about blocks";
}

INSTANTIATE_TEST_SUITE_P(Seeds, BlockHistories, ::testing::Values(1, 2, 3, 4));

class BudgetBlockHistories : public ScriptTest,
                             public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  static sluice::Limit random_limit(Dice& dice) {
    const auto units = static_cast<std::uint64_t>(dice.between(0, 4));
    const sluice::Duration per = dice.any_of({sluice::kNeverEnds, sluice::Duration{20ms}});
    const auto limit = sluice::budget(units).per(per).holds(dice.any_of<std::uint64_t>({1, 2}));
    return dice.chance(50) ? sluice::Limit(limit.releasing_unsettled()) : sluice::Limit(limit);
  }
  static sluice::Action random_action(Dice& dice) {
    const sluice::Duration time{1000 * dice.between(1, 30)};
    return dice.any_of<sluice::Action>({Verb::kTake,
                                        Verb::kTake,
                                        Verb::kPeek,
                                        Verb::kTakeAtMost,
                                        Verb::kSettle,
                                        Verb::kCancel,
                                        {Verb::kHold, time},
                                        {Verb::kHold, time},
                                        {Verb::kExtend, time}});
  }
};

TEST_P(BudgetBlockHistories, AreAnsweredAlikeByMemoryAndRedis) {
  Dice dice(GetParam());
  const Block block = *Block::make({.after = 2, .within = 15ms, .time = 5ms});
  std::size_t blocked = 0;
  const std::size_t histories = random_cases(40, 150);
  for (std::size_t history = 0; history < histories; ++history) {
    redis_.run({"FLUSHALL"});
    sluice::MemoryStore memory({.max_keys = 1024, .shards = 1});
    const sluice::Limit limit = random_limit(dice);
    std::int64_t now = kStart;
    for (int step = 0; step < 80; ++step) {
      now += dice.any_of<std::int64_t>({0, 0, 1, 500, 1000 * dice.between(1, 30)});
      const sluice::Action action = random_action(dice);
      const sluice::PermitId id = sluice::PermitId::named(dice.any_of({"a", "b", "c"}));
      const bool has_id = needs_id(action.verb) || (action.verb == Verb::kTake && dice.chance(60));
      const Charge one{.key = "key",
                       .limit = limit,
                       .cost = static_cast<std::uint64_t>(dice.between(0, 3)),
                       .permit = has_id ? &id : nullptr,
                       .block = &block};
      const Decision in_redis = store_.apply_one(action, one, instant(now));
      ASSERT_EQ(memory.apply_one(action, one, instant(now)), in_redis)
          << "history " << history << " step " << step << store_.error();
      blocked += in_redis.reason == Reason::kBlocked ? 1 : 0;
    }
  }
  EXPECT_GT(blocked, histories / 2) << "the histories say too little about blocks";
}

INSTANTIATE_TEST_SUITE_P(Seeds, BudgetBlockHistories, ::testing::Values(1, 2));

}  // namespace
}  // namespace sluice_redis
