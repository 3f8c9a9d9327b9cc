#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/api/resp/test_handler.h"
#include "tests/property/generate.h"
#include "tests/redis/plan_store.h"
#include "tests/redis/redis_server.h"

// RL.LIMIT and its like in sluice.so, compared with the RESP front end.
namespace sluice_redis {
namespace {

using sluice_property::Dice;
using Words = std::vector<std::string>;

const std::vector<std::string> kLoad = {"--loadmodule", SLUICE_MODULE_FILE};

std::vector<std::string_view> views_of(const Words& words) { return {words.begin(), words.end()}; }

// Returns "outcome allowed reason ok ...", or the error. Long waits are rounded, because the
// requests of a step are some milliseconds apart.
std::string text_of(const sluice::redis::Reply& reply) {
  if (reply.type != Reply::kArray) return std::string(reply.text);
  std::string text;
  for (std::size_t i = 0; i < reply.count; ++i) {
    const sluice::redis::Reply& element = reply[i];
    text += i == 0 ? "" : " ";
    if (element.type == Reply::kInteger) {
      constexpr long long kMinute = 60'000;
      const long long number = element.integer;
      text += std::to_string(number < kMinute ? number : (number + kMinute) / (10 * kMinute));
    } else {
      text += element.type == Reply::kNil ? "null" : std::string(element.text);
    }
  }
  return text;
}

class ModuleCommands : public ::testing::Test {
 protected:
  std::string by_module(const Words& words) {
    redis_.append_words(views_of(words));
    return text_of(*redis_.next());
  }
  std::string by_front_end(const Words& words) {
    const std::string bytes = front_end_.ask(views_of(words));
    sluice::redis::ReplyReader reader;
    reader.feed(bytes);
    const bool is_whole = reader.next() == sluice::redis::ReplyReader::Progress::kReply;
    return is_whole ? text_of(reader.reply()) : "none";
  }

  RedisServer server_{kLoad};
  RedisConnection redis_{server_};
  ScriptConnection scripts_{server_};
  PlanStore store_{scripts_, "s:"};
  sluice::server::resp::TestCommands front_end_{
      {}, sluice::server::ServerOverrides::open("").value(), &store_};
};

struct Algorithm {
  std::string letter;
  Words words;  // after the key
};
const std::vector<Algorithm> kAlgorithms = {
    {"t", {"token_bucket", "10", "300d", "BURST", "15"}},
    {"t", {"token_bucket", "10", "300d", "REFILL", "interval"}},
    {"b", {"leaky_bucket", "10", "300d", "mode", "queue"}},
    {"g", {"gcra", "10", "300d"}},
    {"f", {"fixed_window", "10", "300d"}},
    {"f", {"fixed_window", "10", "300d", "ALIGN", "clock"}},
    {"f", {"fixed_window", "10", "year", "ZONE", "Asia/Shanghai", "STARTS", "04-06"}},
    {"f", {"fixed_window", "0", "300d"}},
    {"c", {"sliding_window_counter", "10", "300d", "SLICES", "6", "WEIGHTING", "none"}},
    {"l", {"sliding_window_log", "10", "300d"}},
    {"h", {"sliding_window_hybrid", "10", "300d"}},
    {"u", {"budget", "10", "300d"}},
    {"u", {"budget", "10", "never"}},
    {"u", {"budget", "10", "month", "ZONE", "Asia/Shanghai"}},
};

Words words_of(std::size_t verb, const std::string& key, const Words& limit,
               const std::string& cost) {
  const std::vector<Words> names = {
      {"RL.LIMIT"}, {"rl.peek", "limit"}, {"RL.REFUND", "LIMIT"}, {"RL.RESET", "LIMIT"}};
  Words words = names[verb];
  words.push_back(key);
  words.insert(words.end(), limit.begin(), limit.end());
  words.insert(words.end(), {"COST", cost});
  return words;
}

// One counter is asked by the front end, one by the module, and one by either.
TEST_F(ModuleCommands, AnswerAsTheFrontEndDoes) {
  Dice dice(15);
  std::size_t denied = 0;
  for (std::size_t a = 0; a < kAlgorithms.size(); ++a) {
    const auto& [letter, limit] = kAlgorithms[a];
    const std::string name = std::to_string(a);
    for (int step = 0; step < 60; ++step) {
      const std::size_t verb = dice.chance(60) ? 0 : dice.chance(5) ? 3 : 1 + dice.below(2);
      const std::string cost = std::to_string(dice.chance(5) ? 1000 : dice.below(4));
      const std::string expected = by_front_end(words_of(verb, "front" + name, limit, cost));
      denied += expected.starts_with("outcome denied");
      EXPECT_EQ(by_module(words_of(verb, "module" + name, limit, cost)), expected)
          << limit[0] << " step " << step << " verb " << verb << " cost " << cost;
      const std::string both = "both" + name;
      const std::string same = std::string("s:").append(letter).append("{}").append(both);
      EXPECT_EQ(dice.chance(50) ? by_module(words_of(verb, same, limit, cost))
                                : by_front_end(words_of(verb, both, limit, cost)),
                expected)
          << limit[0] << " step " << step << " verb " << verb << " cost " << cost;
    }
  }
  EXPECT_GT(denied, 50u);
}

// A counter of another limit is forgotten by that limit, before the window of the calendar ends.
TEST_F(ModuleCommands, WaitAsTheFrontEndDoesAfterAnotherLimit) {
  const Words hour = {"fixed_window", "2", "1h"};
  const Words year = {"fixed_window", "2", "year", "ZONE", "UTC"};
  const auto expect_same = [&](std::size_t verb, const Words& limit, const std::string& cost) {
    const std::string expected = by_front_end(words_of(verb, "front", limit, cost));
    EXPECT_EQ(by_module(words_of(verb, "module", limit, cost)), expected) << verb << " " << cost;
    return expected;
  };
  expect_same(0, hour, "1");
  expect_same(1, year, "1");
  expect_same(0, hour, "1");
  EXPECT_TRUE(expect_same(0, year, "1").starts_with("outcome denied"));
  for (const std::string cost : {"0", "1"}) expect_same(1, year, cost);
  for (const std::size_t verb : {2, 0, 0, 1}) expect_same(verb, year, "1");
}

TEST_F(ModuleCommands, RefuseArgumentsAsTheFrontEndDoes) {
  const std::vector<Words> bad = {{"nonsense", "10", "1h"},
                                  {"gcra", "x", "1h"},
                                  {"gcra", "-1", "1h"},
                                  {"gcra", "4294967296", "1h"},
                                  {"gcra", "10", "1"},
                                  {"gcra", "10", "1h", "BURST"},
                                  {"gcra", "10", "1h", "SLICES", "3"},
                                  {"gcra", "10", "1h", "COST", "1", "cost", "2"},
                                  {"gcra", "10", "1h", "COST", "-1"},
                                  {"gcra", "10", "1h", "ZONE", "UTC"},
                                  {"fixed_window", "10", "day", "ZONE", "../../etc/passwd"},
                                  {"fixed_window", "10", "day", "STARTS", "3"},
                                  {"fixed_window", "10", "1h", "ALIGN", "noon"},
                                  {"token_bucket", "1", "366d", "BURST", "4294967295"}};
  for (const Words& limit : bad) {
    Words words = {"RL.LIMIT", "key"};
    words.insert(words.end(), limit.begin(), limit.end());
    const std::string expected = by_front_end(words);
    EXPECT_TRUE(expected.starts_with("ERR ")) << limit[0] << ": " << expected;
    EXPECT_EQ(by_module(words), expected);
  }
  const Words strange = {"RL.LIMIT", "key", "gcra", "10", "1h", "FOO", "1"};
  const std::string refusal = by_module(strange);
  EXPECT_TRUE(refusal.starts_with("ERR there is no option 'FOO'; expected BURST, ")) << refusal;
  EXPECT_TRUE(refusal.ends_with(" or COST")) << refusal;
  EXPECT_TRUE(by_front_end(strange).ends_with(", COST or ID")) << "the module takes no ids";
  EXPECT_EQ(by_module({"RL.LIMIT", "key", "concurrency", "3", "1h"}),
            "ERR algorithm: the module has no permits; sluice serve has");
  EXPECT_EQ(by_module({"RL.PEEK", "CHECK", "rule", "a", "b", "c"}),
            "ERR there are no rules in the module; expected LIMIT");
  const std::string few = by_module({"RL.PEEK", "LIMIT", "key", "gcra", "10"});
  EXPECT_TRUE(few.starts_with("ERR wrong number of arguments for ")) << few;
  Words many = {"RL.LIMIT", "key", "gcra", "10", "1h"};
  for (int i = 0; i < 100'000; ++i) many.insert(many.end(), {"BURST", "1"});
  EXPECT_EQ(by_module(many), "ERR the option 'BURST' is given twice");
  EXPECT_EQ(redis_.run({"DBSIZE"})->integer, 0);
}

TEST_F(ModuleCommands, LeaveOtherValuesAlone) {
  redis_.run({"RPUSH", "list", "1"});
  redis_.run({"SET", "text", "hello"});
  redis_.run({"CL.THROTTLE", "bucket", "9", "10", "60"});
  const std::string bucket = RedisConnection::text(redis_.run({"GET", "bucket"}));
  for (std::size_t verb = 0; verb < 4; ++verb) {
    const Words limit = {"fixed_window", "10", "1h"};
    EXPECT_EQ(by_module(words_of(verb, "list", limit, "1")),
              "WRONGTYPE Operation against a key holding the wrong kind of value");
    EXPECT_EQ(by_module(words_of(verb, "text", limit, "1")),
              "ERR FOREIGNVALUE text holds a value of another kind or version");
    EXPECT_EQ(by_module(words_of(verb, "bucket", limit, "1")),
              "ERR FOREIGNVALUE bucket holds a value of another kind or version");
  }
  EXPECT_EQ(RedisConnection::text(redis_.run({"GET", "text"})), "hello");
  EXPECT_EQ(RedisConnection::text(redis_.run({"GET", "bucket"})), bucket);
  EXPECT_EQ(redis_.run({"LLEN", "list"})->integer, 1);
}

TEST_F(ModuleCommands, DeclareTheirKeys) {
  const auto key_of = [&](const Words& words) {
    Words asked = {"COMMAND", "GETKEYS"};
    asked.insert(asked.end(), words.begin(), words.end());
    return by_module(asked);
  };
  EXPECT_EQ(key_of({"RL.LIMIT", "a", "gcra", "1", "1h"}), "a");
  EXPECT_EQ(key_of({"RL.RESET", "LIMIT", "a", "gcra", "1", "1h"}), "a");
}

}  // namespace
}  // namespace sluice_redis
