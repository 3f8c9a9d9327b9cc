#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/api/resp/test_handler.h"

namespace sluice::server::resp {
namespace {

using namespace std::chrono_literals;

class BlockCommands : public ::testing::Test {
 protected:
  // COMMAND guess ip ip 192.0.2.1 MORE...
  std::string ask(std::string_view command, const std::vector<std::string_view>& more = {}) {
    std::vector<std::string_view> words = {command, "guess", "ip", "ip", "192.0.2.1"};
    words.insert(words.end(), more.begin(), more.end());
    return handler_.ask(words);
  }
  bool is_blocked() {
    return handler_.ask({"RL.PEEK", "CHECK", "guess", "ip", "192.0.2.1"}).find("blocked") !=
           std::string::npos;
  }

  TestCommands handler_;
};

TEST_F(BlockCommands, BlockAKeyForATime) {
  EXPECT_EQ(ask("RL.BLOCK", {"FOR", "15m"}), "+OK\r\n");
  EXPECT_TRUE(is_blocked());
  handler_.clock.advance(15min - Duration{1});
  EXPECT_TRUE(is_blocked());
  handler_.clock.advance(Duration{1});
  EXPECT_FALSE(is_blocked());
}

TEST_F(BlockCommands, BlockAKeyUntilAnInstant) {
  const auto then = SystemClock().now() + 30min;
  const auto ms = std::to_string(then.time_since_epoch() / 1ms);
  EXPECT_EQ(ask("rl.block", {"until", ms}), "+OK\r\n");
  handler_.clock.advance(20min);
  EXPECT_TRUE(is_blocked());
  handler_.clock.advance(10min);
  EXPECT_FALSE(is_blocked());
}

TEST_F(BlockCommands, UnblockReturnsWhetherTheKeyWasBlocked) {
  EXPECT_EQ(ask("RL.UNBLOCK"), ":0\r\n");
  for (int i = 0; i < 2; ++i) handler_.ask({"RL.CHECK", "guess", "ip", "192.0.2.1"});
  EXPECT_TRUE(is_blocked());
  EXPECT_EQ(ask("RL.UNBLOCK"), ":1\r\n");
  EXPECT_FALSE(is_blocked());
}

TEST_F(BlockCommands, ExplainWhatIsWrong) {
  const std::string one = "-ERR expected one of FOR and UNTIL after the attributes\r\n";
  EXPECT_EQ(ask("RL.BLOCK"), one);
  EXPECT_EQ(ask("RL.BLOCK", {"FOR"}), one);
  EXPECT_EQ(ask("RL.BLOCK", {"UNTIL", "4102444800000", "FOR", "1m"}), one);
  EXPECT_EQ(ask("RL.BLOCK", {"FOR", "367d"}),
            "-ERR FOR is out of range: '367d'; expected 1ms to 366d\r\n");
  EXPECT_EQ(ask("RL.BLOCK", {"FOR", "soon"}),
            "-ERR FOR: 'soon' is not a period; expected a whole number and its unit (ms, s, m, h "
            "or d), such as 60s\r\n");
  EXPECT_TRUE(ask("RL.BLOCK", {"UNTIL", "1"}).starts_with("-ERR UNTIL is out of range"));
  EXPECT_EQ(handler_.ask({"RL.UNBLOCK", "guess", "ips", "ip", "::1"}),
            "-ERR the rule 'guess' has no limit 'ips'; expected one of: ip\r\n");
  EXPECT_EQ(
      handler_.ask({"RL.BLOCK", "login", "ip", "ip", "::1", "FOR", "1m"}),
      "-ERR the limit 'ip' of the rule 'login' has no block; expected a limit with 'block:' "
      "in the rules, or an override, which blocks a key of any limit: RL.OVERRIDE SET 'login' "
      "'ip' ... LIMIT blocked\r\n");
  EXPECT_EQ(handler_.ask({"RL.UNBLOCK", "guess", "ip"}),
            "-ERR an attribute of the key '{ip}' of the limit 'ip' is missing; expected all of "
            "them\r\n");
  EXPECT_FALSE(is_blocked());
}

TEST(BlockCommandRoles, AreForOperators) {
  TestCommands handler({{"default", Role::kCheck, "secret"}, {"ops", Role::kOperate, "secrets"}});
  handler.ask({"AUTH", "secret"});
  const std::vector<std::string_view> block = {"RL.BLOCK", "guess", "ip", "ip", "::1", "FOR", "1m"};
  const std::vector<std::string_view> unblock = {"RL.UNBLOCK", "guess", "ip", "ip", "::1"};
  EXPECT_TRUE(handler.ask(block).starts_with("-NOPERM "));
  EXPECT_TRUE(handler.ask(unblock).starts_with("-NOPERM "));
  handler.ask({"AUTH", "ops", "secrets"});
  EXPECT_EQ(handler.ask(block), "+OK\r\n");
  EXPECT_EQ(handler.ask(unblock), ":1\r\n");
}

}  // namespace
}  // namespace sluice::server::resp
