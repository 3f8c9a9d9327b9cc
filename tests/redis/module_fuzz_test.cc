#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/calendar.h"
#include "sluice/permit_id.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"
#include "tests/redis/plan_store.h"
#include "tests/redis/redis_server.h"

// All commands of sluice.so in a real server, with random arguments and random stored values: the
// server must stay up, and answer.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Charge;
using sluice::Limit;
using sluice_property::Dice;
using Words = std::vector<std::string>;

// Returns the words of a command in RESP.
Words words_of(std::string_view bytes) {
  Words words;
  std::size_t at = bytes.find("\r\n") + 2;
  while (at < bytes.size()) {
    const std::size_t end = bytes.find("\r\n", at);
    const std::size_t size = std::stoul(std::string(bytes.substr(at + 1, end - at - 1)));
    words.emplace_back(bytes.substr(end + 2, size));
    at = end + 2 + size + 2;
  }
  return words;
}

class ModuleFuzzer {
 public:
  explicit ModuleFuzzer(std::uint64_t seed) : dice_(seed) {
    keys_ = {"a", "b", "", "list", std::string(70'000, 'k'), std::string("\0\r\n\xFF", 4)};
  }

  // Sends this many commands and reads their replies.
  void run(RedisConnection& redis, std::size_t commands) {
    while (commands > 0) {
      const std::size_t batch = std::min<std::size_t>(commands, 64);
      std::size_t replies = 0;
      for (std::size_t i = 0; i < batch; ++i) replies += send(redis);
      for (; replies > 0; --replies) keep(*redis.next());
      commands -= batch;
    }
  }

 private:
  template <typename T>
  const T& any(const std::vector<T>& values) {
    return values[dice_.below(values.size())];
  }

  std::size_t send(RedisConnection& redis) {
    const std::size_t kind = dice_.below(100);
    if (kind < 70) return send(redis, module_command());
    if (kind < 92) return send(redis, change_of_a_value());
    if (kind < 95) {  // in a transaction
      return send(redis, {"MULTI"}) + send(redis, module_command()) +
             send(redis, module_command()) + send(redis, {"EXEC"});
    }
    if (kind < 98) {  // in a script, which must not write here if it is read-only
      Words words = module_command();
      words.insert(words.begin(), {dice_.chance(80) ? "EVAL" : "EVAL_RO",
                                   "return redis.pcall(unpack(ARGV))", "0"});
      return send(redis, words);
    }
    if (dice_.chance(10)) return send(redis, {"FLUSHALL"});
    const bool is_full = dice_.chance(15);
    return send(redis, {"CONFIG", "SET", "maxmemory", is_full ? "1" : "0"});
  }
  std::size_t send(RedisConnection& redis, const Words& words) {
    redis.append_words(std::vector<std::string_view>(words.begin(), words.end()));
    return 1;
  }

  // Remembers values, which are found again in other keys.
  void keep(const sluice::redis::Reply& reply) {
    if (reply.type != Reply::kString || reply.text.size() < 2 || reply.text[0] != '\xC1') return;
    std::string value(reply.text);
    if (values_.size() < 200) {
      values_.push_back(std::move(value));
    } else {
      values_[dice_.below(values_.size())] = std::move(value);
    }
  }

  // --- stored values ---

  Words change_of_a_value() {
    const std::string& key = any(keys_);
    switch (dice_.below(16)) {
      case 0: return {"DEL", key};
      case 1: return {"SET", key, dice_.any_of<const char*>({"", "12345", "hello", "\xC1\x11"})};
      case 2: return {"RPUSH", key, "1"};
      case 3: return {"HSET", key, "field", "1"};
      case 4: return {"SETRANGE", key, std::to_string(dice_.magnitude(100'000)), "\xFF"};
      case 5: return {"PEXPIRE", key, std::to_string(dice_.below(20))};
      case 6: return {"PERSIST", key};
      case 7: return {"APPEND", key, std::string(dice_.below(30), '\0')};
      case 8: return {"RENAME", key, any(keys_)};
      case 9:
      case 10:
      case 11:
      case 12: return change_of_a_budget();
      case 13:
      case 14:
        if (!values_.empty()) return {"SET", key, damaged(any(values_), 2)};
        [[fallthrough]];
      default: return {"GET", key};
    }
  }

  // A budget that may contradict itself, with ids that requests ask for.
  Words change_of_a_budget() {
    namespace format = sluice::redis::format;
    Words words = {"HSET", dice_.any_of<const char*>({"u{}a", "u{}b", "u{}c"})};
    format::BudgetHead head{};
    for (const auto& field : format::kBudgetHead.fields()) {
      head.*field.member = dice_.magnitude((std::uint64_t{1} << 8 * field.size) - 1);
    }
    head.kind = format::kBudgetKind;
    if (dice_.chance(90)) head.changed %= format::kEndOfInstants / 3;
    if (dice_.chance(90)) head.forgotten = format::kNeverForgotten;
    if (dice_.chance(90)) head.spent %= sluice::kMaxAmount;
    if (dice_.chance(90)) head.held %= sluice::kMaxAmount;
    if (dice_.chance(80)) head.open = dice_.below(3);
    if (dice_.chance(80)) head.past = dice_.below(2);
    if (dice_.chance(80)) head.open_cells = 1 + dice_.below(2);
    if (dice_.chance(80)) head.ended_cells = 1 + dice_.below(2);
    std::string text;
    format::kBudgetHead.append(head, text);
    words.insert(words.end(), {"h", dice_.chance(90) ? text : damaged(text, 3)});
    for (const char* const cell : {"o0", "o1", "e0", "e1"}) {
      if (dice_.chance(40)) words.insert(words.end(), {cell, some_ids()});
    }
    return words;
  }
  std::string some_ids() {
    std::vector<sluice::core::IdRecord> ids;
    for (std::uint64_t count = dice_.below(4); count > 0; --count) {
      ids.emplace_back(sluice::core::HoldName(any_permit()),
                       static_cast<sluice::core::IdKind>(dice_.chance(60) ? 1 : dice_.below(8)),
                       dice_.magnitude(sluice::kMaxAmount),
                       dice_.magnitude((std::uint64_t{1} << 56) - 1));
    }
    std::string text;
    sluice::redis::append_ids(ids, text);
    return dice_.chance(90) ? text : damaged(text, 3);
  }

  std::string damaged(std::string bytes, std::uint64_t most_changes) {
    for (std::uint64_t changes = dice_.below(most_changes + 1); changes > 0; --changes) {
      if (bytes.empty()) break;
      bytes[dice_.below(bytes.size())] = static_cast<char>(dice_.below(256));
    }
    if (dice_.chance(5)) bytes.resize(dice_.below(bytes.size() + 1));
    if (dice_.chance(5)) bytes += static_cast<char>(dice_.below(256));
    return bytes;
  }

  // --- commands of the module ---

  Words module_command() {
    Words words = dice_.chance(60) ? apply() : dice_.chance(50) ? throttle() : by_limit();
    if (dice_.chance(3)) words.emplace_back("more");
    if (dice_.chance(3)) words.resize(1 + dice_.below(words.size()));
    if (dice_.chance(5) && words.size() > 1) words[1 + dice_.below(words.size() - 1)] = any(keys_);
    return words;
  }

  Limit some_limit() {
    if (dice_.chance(10)) return sluice::concurrency(1 + dice_.below(5)).lease(100ms);
    if (dice_.chance(25)) return some_budget();
    if (dice_.chance(10)) {
      const auto calendar = sluice::calendar_day(dice_.chance(50) ? "UTC" : "Asia/Shanghai");
      return sluice::fixed_window(dice_.below(20)).per(calendar);
    }
    const auto algorithm = sluice_property::random_algorithm(dice_);
    return sluice_property::limit_of(sluice_property::random_spec(dice_, algorithm));
  }

  Limit some_budget() {
    const std::uint64_t limit = dice_.chance(70) ? dice_.below(20) : dice_.magnitude(1u << 31);
    if (dice_.chance(30)) return sluice::budget(limit).per(sluice::calendar_day("UTC")).holds(2);
    if (dice_.chance(30)) return sluice::budget(limit).never().releasing_unsettled();
    return sluice::budget(limit).per(dice_.chance(50) ? 100ms : 1h).remember(1s);
  }

  Words apply() {
    sluice::redis::Plan plan;
    std::vector<Charge> charges;
    const std::uint64_t count = dice_.chance(70) ? 1 : 1 + dice_.below(8);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (limits_.size() < 40) limits_.push_back(some_limit());
      charges.push_back({.key = dice_.any_of({"a", "b", "c"}),
                         .limit = any(limits_),
                         .cost = dice_.chance(80) ? dice_.below(4) : dice_.magnitude(kMostCost),
                         .permit = dice_.chance(90) ? &any_permit() : nullptr,
                         .id_text = "call",
                         .block = dice_.chance(30) ? &block_ : nullptr,
                         .alternative = i > 0 && dice_.chance(10)});
    }
    const auto verb = static_cast<sluice::Verb>(dice_.below(14));
    std::optional<sluice::Instant> now;
    if (dice_.chance(30)) {
      now = sluice::Instant{
          sluice::Duration{static_cast<std::int64_t>(dice_.magnitude(sluice_property::kLastTick))}};
    }
    const std::uint64_t ledger_keep = dice_.chance(50) ? 100 : 0;
    if (!plan.begin({.prefix = "", .ledger_keep = ledger_keep, .uses_module = true}, {verb, 1s},
                    charges, now)) {
      return apply();
    }
    PlainCommand command;
    command.write(plan);
    Words words = words_of(command.for_module());
    for (std::size_t i = 1; i + 1 < words.size() && keys_.size() < 60; ++i) {
      keys_.push_back(words[i]);
    }
    if (dice_.chance(50)) words.back() = damaged(words.back(), 4);
    if (dice_.chance(10) && !words.back().empty()) {  // another verb
      words.back()[0] = static_cast<char>(dice_.below(256));
    }
    return words;
  }

  std::string number() {
    static const Words known_numbers = {"0",
                                        "1",
                                        "-1",
                                        "x",
                                        "",
                                        "60",
                                        "4294967295",
                                        "4294967296",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "99999999999999999999",
                                        "31622400",
                                        "1.5",
                                        "0.001"};
    return dice_.chance(60) ? std::to_string(1 + dice_.below(20)) : any(known_numbers);
  }

  Words throttle() {
    Words words = {dice_.any_of<const char*>({"CL.THROTTLE", "RL.THROTTLE", "THROTTLE", "GCRA"}),
                   any(keys_), number(), number(), number()};
    if (words[0] == "GCRA" && dice_.chance(50)) words.emplace_back("TOKENS");
    if (dice_.chance(50) || words.back() == "TOKENS") words.push_back(number());
    return words;
  }

  Words by_limit() {
    static const std::vector<Words> known_names = {
        {"RL.LIMIT"}, {"RL.PEEK", "LIMIT"}, {"RL.REFUND", "limit"}, {"RL.RESET", "LIMIT"}};
    static const Words known_periods = {"1s", "1m", "1ms", "366d", "day", "month", "year", "0", ""};
    static const std::vector<Words> known_options = {{"BURST"},
                                                     {"SLICES"},
                                                     {"COST"},
                                                     {"ALIGN", "clock"},
                                                     {"REFILL", "interval"},
                                                     {"MODE", "queue"},
                                                     {"WEIGHTING", "none"},
                                                     {"ZONE", "Europe/Malta"},
                                                     {"ZONE", "../x"},
                                                     {"STARTS", "2"},
                                                     {"STARTS", "monday"},
                                                     {"NONSENSE"}};
    Words words = any(known_names);
    words.push_back(any(keys_));
    words.emplace_back(dice_.any_of<const char*>(
        {"token_bucket", "leaky_bucket", "gcra", "fixed_window", "sliding_window_counter",
         "sliding_window_log", "sliding_window_hybrid", "concurrency", "budget", "x"}));
    words.push_back(number());
    words.push_back(any(known_periods));
    for (std::uint64_t options = dice_.chance(60) ? 0 : dice_.below(4); options > 0; --options) {
      const Words& option = any(known_options);
      words.insert(words.end(), option.begin(), option.end());
      if (option.size() == 1) words.push_back(number());
    }
    return words;
  }

  const sluice::PermitId& any_permit() { return kPermits[dice_.below(kPermits.size())]; }

  static constexpr std::uint64_t kMostCost = std::uint64_t{1} << 33;
  static constexpr std::array kPermits = {sluice::PermitId({1}), sluice::PermitId({2}),
                                          sluice::PermitId({3})};

  Dice dice_;
  Words keys_;
  Words values_;
  std::vector<Limit> limits_;
  sluice::Block block_ =
      sluice::Block::make({.after = 2, .within = 1s, .time = 1s, .growth = 200, .at_most = 60s})
          .value();
};

// Returns how many calls of a command have not failed.
std::uint64_t successes(RedisConnection& redis, const std::string& command) {
  const std::string text = RedisConnection::text(redis.run({"INFO", "commandstats"}));
  const std::size_t line = text.find("cmdstat_" + command + ":");
  if (line == std::string::npos) return 0;
  const auto field = [&](std::string_view name) {
    return std::stoull(text.substr(text.find(name, line) + name.size()));
  };
  return field("calls=") - field("failed_calls=");
}

void expect_to_stay_up(std::uint64_t seed) {
  const char* const more = std::getenv("SLUICE_FUZZ_COMMANDS");
  const std::size_t commands = more != nullptr ? std::stoul(more) : 60'000;
  std::printf("seed %llu, %zu commands\n", static_cast<unsigned long long>(seed), commands);
  const RedisServer server({"--loadmodule", SLUICE_MODULE_FILE});
  RedisConnection redis(server);
  ModuleFuzzer(seed).run(redis, commands);
  EXPECT_EQ(RedisConnection::text(redis.run({"PING"})), "PONG");
  const std::string info = RedisConnection::text(redis.run({"INFO", "server"}));
  EXPECT_NE(info.find("process_id:" + std::to_string(server.pid()) + "\r"), std::string::npos);
  for (const char* const command : {"sluice.apply", "cl.throttle", "rl.throttle", "throttle",
                                    "gcra", "rl.limit", "rl.peek", "rl.refund", "rl.reset"}) {
    EXPECT_GT(successes(redis, command), commands / 1000) << command;
  }
}

TEST(ModuleFuzz, LeavesTheServerUp) { expect_to_stay_up(15); }
TEST(ModuleFuzz, LeavesTheServerUpWithAnotherSeedEachTime) {
  expect_to_stay_up(std::random_device()());
}

}  // namespace
}  // namespace sluice_redis
