#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/script/plan.h"
#include "tests/property/generate.h"
#include "tests/redis/script_test.h"
#include "tests/support/random_cases.h"

// The short ways of the scripts give the same replies and execute the same writes as the long ones.
namespace sluice_redis {
namespace {

using sluice_oracle::Algorithm;
using sluice_oracle::Spec;
using sluice_oracle::Verb;
using sluice_property::Dice;
using sluice_property::Step;

// The script inside a function that sees a clock of the test and notes the writes.
constexpr std::string_view kBefore = R"lua(
local real, notes, micros = redis, {}, %d
local function noted(run)
  return function(name, ...)
    if name == 'TIME' then
      return {tostring((micros - micros % 1000000) / 1000000), tostring(micros % 1000000)}
    end
    if name ~= 'EXISTS' and not string.find(name, 'GET') and name ~= 'STRLEN' then
      notes[#notes + 1] = name
      for _, word in ipairs({...}) do
        notes[#notes + 1] = type(word) == 'number' and string.format('%.17g', word) or word
      end
    end
    if name == 'PEXPIRE' then return 1 end -- the keys expire by the clock of the test only
    if name == 'SET' then return run(name, (...), (select(2, ...))) end
    return run(name, ...)
  end
end
local redis = {call = noted(real.call), pcall = noted(real.pcall)}
local function script()
)lua";
constexpr std::string_view kAfter = "\nend\nreturn {script(), table.concat(notes, ' ')}";

// Returns a script that has only the long way.
std::string without_short_way(std::string_view script) {
  for (const std::string_view name : {"bucket_single", "bucket_request"}) {
    const std::string& way = sluice::redis::lua_part(name);
    if (script.starts_with(way)) script.remove_prefix(way.size());
  }
  std::string text(script);
  const std::size_t list = text.rfind("local decide = {");
  const std::size_t end = text.find('}', list);
  for (const std::string_view way : {"short_log", "short_hybrid"}) {
    const std::size_t at = text.find(way, list);
    if (at < end) text.replace(at, way.size(), "any_log");
  }
  return text;
}

std::string with_clock(std::string_view script, std::int64_t at_us) {
  std::string text(kBefore);
  text.replace(text.find("%d"), 2, std::to_string(at_us));
  return text.append(script).append(kAfter);
}

// Returns what the script said and wrote. Without the place in the script of an error it raised.
std::string result_of(const Reply& reply) {
  const auto text_of = [](const sluice::redis::Reply& one) {
    std::string text(one.text);
    if (one.type == Reply::kError) text.resize(std::min(text.find(" script: "), text.size()));
    return std::to_string(static_cast<int>(one.type)) + ":" + text;
  };
  if (reply->type != Reply::kArray) return text_of(*reply);
  std::string text;
  for (const auto& one : *reply) text += text_of(one) + "\n";
  return text;
}

std::string as_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) / 16];
    hex += kDigits[static_cast<unsigned char>(c) % 16];
  }
  return hex;
}

class ShortWays : public ::testing::TestWithParam<std::vector<Algorithm>> {
 protected:
  ShortWays() { longer_.run({"SELECT", "1"}); }

  // Runs the step with both scripts, each on a database of its own.
  void compare(const Step& step, bool at_server_time) {
    sluice::redis::Plan plan;
    const std::vector<sluice::Charge> charges = charges_of(step);
    const sluice::Instant at{sluice::Duration{step.at_us}};
    if (!plan.begin({.prefix = ""}, action_of(step), charges,
                    at_server_time ? std::nullopt : std::optional(at))) {
      return;
    }
    PlainCommand command;
    plan.write(0, command);
    const std::string long_text = without_short_way(command.script->text);
    differing_ += long_text != command.script->text;
    const std::string expected = run(longer_, with_clock(long_text, step.at_us), command);
    const std::string actual = run(shorter_, with_clock(command.script->text, step.at_us), command);
    ASSERT_EQ(as_hex(actual), as_hex(expected))
        << to_json(step) << "\nserver time " << at_server_time;
  }

  // Changes the value of the key in the same way in both databases.
  void damage(std::string_view key, Dice& dice) {
    std::string value = RedisConnection::text(shorter_.run({"GET", key}));
    // A bucket's value has this size. A changed log is out of step with itself, so its ways differ.
    const bool is_fixed = value.size() == sluice::redis::format::kFixedState.size();
    if (value.empty() || dice.chance(10)) {
      const bool is_list = dice.chance(50);
      for (RedisConnection* const redis : {&shorter_, &longer_}) {
        redis->run({"DEL", key});
        if (is_list) redis->run({"RPUSH", key, "1"});
      }
      return;
    }
    if (dice.chance(20)) {
      value.resize(dice.below(value.size()));
    } else {
      value[dice.below(is_fixed ? value.size() : 2)] = static_cast<char>(dice.below(256));
    }
    for (RedisConnection* const redis : {&shorter_, &longer_}) redis->run({"SET", key, value});
  }

  std::size_t differing_ = 0;  // steps whose script has a short way

 private:
  static std::string run(RedisConnection& redis, const std::string& text,
                         const sluice::redis::Command& command) {
    redis.append_raw("*" + std::to_string(2 + command.elements) + "\r\n$4\r\nEVAL\r\n$" +
                     std::to_string(text.size()) + "\r\n" + text + "\r\n" + command.tail);
    return result_of(redis.next());
  }

  RedisServer server_;

 protected:
  RedisConnection shorter_{server_};
  RedisConnection longer_{server_};
};

TEST_P(ShortWays, AnswerAndWriteLikeTheLongOnes) {
  const std::size_t histories = sluice::testing::random_cases(10, 40);
  constexpr std::size_t kSteps = 60;
  Dice dice(17 + static_cast<std::uint64_t>(GetParam().front()));
  for (std::size_t i = 0; i < histories && !HasFatalFailure(); ++i) {
    for (RedisConnection* const redis : {&shorter_, &longer_}) {
      redis->run({"FLUSHDB"});
      redis->run({"SCRIPT", "FLUSH"});
    }
    std::vector<Spec> specs;
    for (int s = 0; s < 4; ++s)
      specs.push_back(random_spec(dice, GetParam()[dice.below(GetParam().size())]));
    std::int64_t now = 1700000000123456;
    for (std::size_t j = 0; j < kSteps && !HasFatalFailure(); ++j) {
      const Spec& of_time = specs[dice.below(specs.size())];
      Step step;
      if (dice.chance(30)) {
        step.verb = dice.any_of({Verb::kPeek, Verb::kRefund, Verb::kCharge, Verb::kReserve,
                                 Verb::kTakeAtMost, Verb::kReset});
      }
      if (step.verb == Verb::kReserve) {
        step.max_wait_us = static_cast<std::int64_t>(dice.magnitude(10'000'000));
      }
      const auto period = static_cast<std::uint64_t>(of_time.per_us);
      now += static_cast<std::int64_t>(
          dice.any_of<std::uint64_t>({0, 1, dice.magnitude(period), dice.magnitude(period) / 8,
                                      dice.chance(10) ? 2 * period : 0}));
      // The beginning of a window and of a slice.
      if (dice.chance(10)) now += of_time.per_us - now % of_time.per_us;
      step.at_us = dice.chance(4) ? now - static_cast<std::int64_t>(dice.magnitude(period)) : now;
      const std::size_t first = dice.below(specs.size());
      const std::size_t count = dice.chance(50) ? 1 : 1 + dice.below(specs.size());
      for (std::size_t c = first; c < first + count; ++c) {
        const Spec& spec = specs[c % specs.size()];
        const std::uint64_t most = capacity(spec);
        step.charges.push_back({"key" + std::to_string(c % specs.size()), spec,
                                dice.any_of<std::uint64_t>({1, 1, 1, dice.magnitude(most),
                                                            dice.magnitude(most) / 4, most + 1})});
      }
      if (dice.chance(1)) specs[first] = varied(dice, specs[first]);
      if (dice.chance(2)) {
        const sluice::Limit limit = sluice_property::limit_of(specs[first]);
        damage(redis_key("", limit.algorithm(), "key" + std::to_string(first)), dice);
      }
      compare(step, dice.chance(40));
    }
  }
  EXPECT_GT(differing_, histories * kSteps / 3);
}

INSTANTIATE_TEST_SUITE_P(Of, ShortWays,
                         ::testing::Values(std::vector{Algorithm::kTokenBucket, Algorithm::kGcra,
                                                       Algorithm::kLeakyBucket},
                                           std::vector{Algorithm::kSlidingWindowHybrid},
                                           std::vector{Algorithm::kSlidingWindowLog,
                                                       Algorithm::kTokenBucket}));

}  // namespace
}  // namespace sluice_redis
