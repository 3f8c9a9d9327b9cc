#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/property/budget_history.h"
#include "tests/redis/client_probe.h"
#include "tests/redis/plan_store.h"
#include "tests/redis/redis_server.h"
#include "tests/support/random_cases.h"

// Budgets by sluice.so next to the same requests by scripts: equal answers, and equal bytes in
// every cell and ledger.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Decision;
using sluice::Verb;
using sluice::testing::wait_until;

constexpr std::uint64_t kLedgerKeep = 1'000'000;

// Makes each request of two stores.
class Twins final : public sluice::Store {
 public:
  Twins(PlanStore& scripts, PlanStore& other) : scripts_(scripts), other_(other) {}

  Decision apply(sluice::Action action, std::span<const sluice::Charge> charges,
                 std::optional<sluice::Instant> now, std::span<Decision> each) noexcept override {
    std::vector<Decision> others(each.size());
    const Decision all = scripts_.apply(action, charges, now, each);
    are_equal_ &= other_.apply(action, charges, now, others) == all &&
                  std::equal(each.begin(), each.end(), others.begin());
    return all;
  }
  bool are_equal() const noexcept { return are_equal_; }

 private:
  PlanStore& scripts_;
  PlanStore& other_;
  bool are_equal_ = true;
};

const std::vector<std::string> kWithModule = {"--loadmodule", SLUICE_MODULE_FILE};

// The fields of a budget.
std::string cells_of(RedisConnection& redis, const std::string& key) {
  std::map<std::string, std::string> fields;
  const Reply hash = redis.run({"HGETALL", key});
  for (std::size_t i = 0; i + 1 < hash->count; i += 2) {
    fields.emplace((*hash)[i].string(), (*hash)[i + 1].string());
  }
  std::string text;
  for (const auto& [name, value] : fields) text.append(name).append("=").append(value).append("\n");
  return text;
}

// The entries of a ledger, with their names or without.
std::string entries_of(RedisConnection& redis, const std::string& key, bool with_names) {
  std::string text;
  const Reply stream = redis.run({"XRANGE", key, "-", "+"});
  for (const sluice::redis::Reply& entry : *stream) {
    if (with_names) text += std::string(entry[0].text) + ": ";
    for (const sluice::redis::Reply& word : entry[1]) text += std::string(word.text) + " ";
    text += "\n";
  }
  return text;
}

// The parameter says how many calls on the second counter are by the module, in per cent.
class ModuleBudgets : public ::testing::TestWithParam<unsigned> {
 protected:
  void expect_same_cells() {
    for (const std::string key : {"u{}a", "u{}b", "u{}c"}) {
      ASSERT_EQ(cells_of(reader_, "m:" + key), cells_of(reader_, "s:" + key));
    }
  }
  void expect_same_ledgers() {
    for (const std::string key : {"eu{}a", "eu{}b", "eu{}c"}) {
      const std::string entries = entries_of(reader_, "s:" + key, false);
      ASSERT_EQ(entries_of(reader_, "m:" + key, false), entries);
      lines_ += static_cast<std::size_t>(std::count(entries.begin(), entries.end(), '\n'));
    }
  }
  std::size_t calls_of_module() {
    const std::string text = RedisConnection::text(reader_.run({"INFO", "commandstats"}));
    const std::string_view begin = "cmdstat_sluice.apply:calls=";
    const std::size_t at = text.find(begin);
    return at == text.npos ? 0 : std::stoul(text.substr(at + begin.size()));
  }

  const RedisServer server_{kWithModule};
  RedisConnection reader_{server_};
  ScriptConnection scripts_{server_, 0};
  ScriptConnection other_{server_, GetParam()};
  std::size_t lines_ = 0;
};

TEST_P(ModuleBudgets, HaveTheBytesAndAnswersOfTheScripts) {
  const std::size_t histories = sluice::testing::random_cases(8, 400);
  for (std::size_t i = 0; i < histories; ++i) {
    SCOPED_TRACE("history " + std::to_string(i));
    reader_.run({"FLUSHDB"});
    const std::uint64_t keep = i % 2 == 0 ? kLedgerKeep : 0;
    PlanStore by_scripts(scripts_, "s:", false, keep);
    PlanStore by_module(other_, "m:", false, keep);
    Twins store(by_scripts, by_module);
    sluice_property::BudgetHistory history(i, store);
    for (int step = 0; step < 120; ++step) {
      ASSERT_EQ(history.step(), "") << by_scripts.error();
      ASSERT_TRUE(store.are_equal()) << "step " << step;
      ASSERT_NO_FATAL_FAILURE(expect_same_cells()) << "step " << step;
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_ledgers());
  }
  EXPECT_GT(lines_, 20 * histories);
  EXPECT_GT(calls_of_module(), 40 * histories);
}

// Cells divide, holds end together, and their records move.
TEST_P(ModuleBudgets, HaveTheBytesOfTheScriptsWithManyHolds) {
  constexpr sluice::Limit kLarge =
      sluice::budget(1'000'000).per(366 * 24h).holds(65'535).remember(1min);
  PlanStore by_scripts(scripts_, "s:", false, kLedgerKeep);
  PlanStore by_module(other_, "m:", false, kLedgerKeep);
  Twins store(by_scripts, by_module);
  sluice_property::Dice dice(GetParam());
  std::int64_t at = 1'700'000'000'000'000;
  std::uint64_t made = 0;
  const auto ask = [&](sluice::Action action, std::uint64_t number, std::uint64_t cost) {
    const auto id = sluice::PermitId::named("call " + std::to_string(number));
    const sluice::Charge charge{.key = "a", .limit = kLarge, .cost = cost, .permit = &id};
    store.apply_one(action, charge, sluice::Instant{sluice::Duration{at}});
    ASSERT_TRUE(store.are_equal()) << number;
  };
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 700; ++i) {
      ask({Verb::kHold, sluice::Duration{1'000'000 + dice.below(100) * 10'000}}, made++, 1);
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_cells());
    at += round == 1 ? 120'000'000 : 1'900'000;  // 90 % or all have ended
    for (int i = 0; i < 100; ++i) {
      ask(dice.any_of<sluice::Action>(
              {Verb::kSettle, Verb::kCancel, Verb::kTake, {Verb::kHold, 1s}, {Verb::kExtend, 1s}}),
          dice.below(made), dice.below(3));
      if (i % 10 == 0) ASSERT_NO_FATAL_FAILURE(expect_same_cells()) << "step " << i;
      at += dice.chance(10) ? 10'000 : 0;
    }
  }
  expect_same_ledgers();
  EXPECT_GT(lines_, 2000u);
}
INSTANTIATE_TEST_SUITE_P(PerCent, ModuleBudgets, ::testing::Values(100u, 50u));

// --- damaged values ---

class DamagedBudget : public ::testing::Test {
 protected:
  static constexpr sluice::Limit kLimit = sluice::budget(20).per(1h).holds(5).remember(1min);
  using Fields = std::vector<std::pair<std::string, std::string>>;

  static sluice::Instant at(int seconds) {
    return sluice::Instant{std::chrono::seconds{1'700'000'000 + seconds}};
  }
  void make() {
    PlanStore store(connection_, "");
    for (int i = 0; i < 6; ++i) {
      const auto id = sluice::PermitId::named(std::to_string(i));
      const sluice::Charge charge{.key = "k", .limit = kLimit, .cost = 2, .permit = &id};
      ASSERT_TRUE(store.apply_one(i % 2 == 0 ? sluice::Action(Verb::kHold, 1min) : Verb::kTake,
                                  charge, at(i)));
    }
    const Reply hash = reader_.run({"HGETALL", "u{}k"});
    for (std::size_t i = 0; i + 1 < hash->count; i += 2) {
      good_.emplace_back((*hash)[i].string(), (*hash)[i + 1].string());
    }
  }
  // Returns what one of them answers, and the fields that it leaves.
  std::string decide(bool by_module, const Fields& fields, sluice::Action action, int seconds,
                     const std::string& name) {
    reader_.run({"DEL", "u{}k"});
    for (const auto& [field, value] : fields) reader_.run({"HSET", "u{}k", field, value});
    const auto id = sluice::PermitId::named(name);
    const sluice::Charge charge{.key = "k", .limit = kLimit, .cost = 2, .permit = &id};
    sluice::redis::Plan plan;
    PlainCommand command;
    EXPECT_TRUE(plan.begin({.prefix = "", .uses_module = true}, action, {&charge, 1}, at(seconds)));
    command.write(plan);
    std::string said;
    if (by_module) {
      reader_.append_raw(command.for_module());
      const Reply reply = reader_.next();
      said = reply->type == Reply::kError ? "an error" : RedisConnection::text(reply);
    } else {
      connection_.send_script(command);
      const Reply reply = connection_.next();
      said = reply->type == Reply::kError ? "an error" : RedisConnection::text(reply);
    }
    return said + cells_of(reader_, "u{}k");
  }
  void expect_alike(const Fields& fields, const std::string& name) {
    for (const sluice::Action action : {sluice::Action(Verb::kHold, 1min),
                                        {Verb::kSettle},
                                        {Verb::kTake},
                                        {Verb::kExtend, 1min}}) {
      for (const int seconds : {7, 62}) {
        EXPECT_EQ(decide(true, fields, action, seconds, name),
                  decide(false, fields, action, seconds, name))
            << "verb " << static_cast<int>(action.verb) << " after " << seconds << " s, id "
            << name;
      }
    }
  }

  const RedisServer server_{kWithModule};
  RedisConnection reader_{server_};
  ScriptConnection connection_{server_, 0};
  Fields good_;
};

TEST_F(DamagedBudget, IsDecidedAlikeWithAnyByteChanged) {
  ASSERT_NO_FATAL_FAILURE(make());
  ASSERT_EQ(good_.size(), 3u);
  for (std::size_t f = 0; f < good_.size(); ++f) {
    for (std::size_t i = 0; i < good_[f].second.size(); ++i) {
      Fields fields = good_;
      char& byte = fields[f].second[i];
      byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (i % 2 == 0 ? 1 : 128));
      SCOPED_TRACE(good_[f].first + " byte " + std::to_string(i));
      expect_alike(fields, std::to_string(i % 7));
    }
  }
}

// --- other servers, without the module ---

// Makes some changes at the time of the server, all by the module.
void use(const RedisServer& server) {
  ScriptConnection redis(server, 100);
  PlanStore store(redis, "", false, 5);
  constexpr sluice::Limit kLimit = sluice::budget(1000).per(1h);
  const auto ask = [&](sluice::Action action, const std::string& name, std::uint64_t cost) {
    const auto id = sluice::PermitId::named(name);
    const sluice::Charge charge{.key = "k", .limit = kLimit, .cost = cost, .permit = &id};
    EXPECT_TRUE(store.apply_one(action, charge, std::nullopt)) << store.error();
  };
  for (int i = 0; i < 300; ++i) {
    const std::string number = std::to_string(i);
    ask({Verb::kHold, 1min}, "settled " + number, 2);
    ask(Verb::kSettle, "settled " + number, 1);
    if (i < 50) ask({Verb::kHold, 1min}, "open " + number, 3);
  }
  const sluice::Charge gone{.key = "gone", .limit = kLimit, .cost = 1};
  store.apply_one(Verb::kTake, gone, std::nullopt);
  store.apply_one(Verb::kReset, gone, std::nullopt);
}

std::string dump(const RedisServer& server) {
  RedisConnection redis(server);
  wait_until("the server has loaded its data", [&] {
    return !RedisConnection::text(redis.run({"GET", "any"})).starts_with("LOADING");
  });
  std::string text = cells_of(redis, "u{}k") + entries_of(redis, "eu{}k", true) +
                     entries_of(redis, "eu{}gone", true);
  EXPECT_GT(text.size(), 300u * 24);
  EXPECT_EQ(redis.run({"EXISTS", "u{}gone"})->integer, 0);
  for (const char* const key : {"u{}k", "eu{}k", "eu{}gone"}) {
    EXPECT_GT(redis.run({"PTTL", key})->integer, 0) << key;
    const Reply end = redis.run({"PEXPIRETIME", key});
    text += std::to_string(end->integer) + " ";
  }
  return text;
}

TEST(ModuleBudgetPersistence, InAnAppendOnlyFile) {
  std::vector<std::string> options = kWithModule;
  options.insert(options.end(), {"--appendonly", "yes", "--appendfsync", "always"});
  RedisServer server(options);
  use(server);
  const std::string before = dump(server);
  server.kill_now();
  const RedisServer other({"--dir", server.folder(), "--appendonly", "yes"});
  EXPECT_EQ(dump(other), before);
}

TEST(ModuleBudgetPersistence, OnAReplicaWithoutTheModule) {
  std::string port;
  const auto master = on_free_port([&](std::uint16_t number) {
    port = std::to_string(number);
    std::vector<std::string> options = kWithModule;
    options.insert(options.end(), {"--port", port});
    return std::make_unique<RedisServer>(options);
  });
  const RedisServer replica({"--replicaof", "127.0.0.1", port});
  RedisConnection reader(replica);
  wait_until("the replica is in step", [&] {
    return RedisConnection::text(reader.run({"INFO", "replication"}))
               .find("master_link_status:up") != std::string::npos;
  });
  use(*master);
  RedisConnection writer(*master);
  writer.run({"SET", "last", "1"});
  EXPECT_EQ(writer.run({"WAIT", "1", "60000"})->integer, 1);
  EXPECT_EQ(dump(replica), dump(*master));
}

}  // namespace
}  // namespace sluice_redis
