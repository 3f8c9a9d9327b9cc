#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/api/resp/test_handler.h"

namespace sluice::server::resp {
namespace {

class TopCommands : public ::testing::Test {
 protected:
  // Counts a request of the rule `login` by this address.
  void count(std::string_view ip) {
    handler_.ask({"RL.CHECK", "login", "ip", ip});
    handler_.keys->hand_over();
    handler_.top_keys.collect(handler_.manager->current());
  }
  std::string ask(std::vector<std::string_view> more) {
    more.insert(more.begin(), "RL.TOP");
    return handler_.ask(more);
  }

  TestCommands handler_;
};

TEST_F(TopCommands, ReturnsTheKeysOfARule) {
  EXPECT_EQ(ask({"login"}), "*0\r\n");
  for (int i = 0; i < 4; ++i) count("192.0.2.1");
  count("192.0.2.2");
  const std::string first =
      "*6\r\n$3\r\nkey\r\n$9\r\n192.0.2.1\r\n$5\r\ncount\r\n:2\r\n$5\r\nerror\r\n:0\r\n";
  EXPECT_EQ(
      ask({"login"}),
      "*1\r\n*6\r\n$5\r\nlimit\r\n$2\r\nip\r\n$5\r\ntotal\r\n:2\r\n$4\r\nkeys\r\n*1\r\n" + first);
  const std::string asked = ask({"login", "by", "ASKED", "limit", "ip", "OVER", "day"});
  EXPECT_NE(asked.find("total\r\n:5\r\n"), std::string::npos) << asked;
  EXPECT_NE(asked.find("192.0.2.2"), std::string::npos);
  EXPECT_EQ(ask({"login", "BY", "asked", "COUNT", "1"}).find("192.0.2.2"), std::string::npos);
}

TEST_F(TopCommands, RequestsThatBringTheirLimitAlongCountByItsAlgorithm) {
  handler_.ask({"CL.THROTTLE", "k", "0", "1", "60"});
  handler_.ask({"CL.THROTTLE", "k", "0", "1", "60"});
  handler_.ask({"CL.THROTTLE", "k", "0", "1", "60", "0"});
  handler_.ask({"RL.LIMIT", "other", "token_bucket", "5", "1m"});
  handler_.keys->hand_over();
  handler_.top_keys.collect(handler_.manager->current());
  const auto asked = handler_.top_keys.top({.by = insight::TopBy::kAsked});
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].rule + "/" + asked[0].limit, "/gcra");
  EXPECT_EQ(asked[0].total, 2U) << "without the peek";
  EXPECT_EQ(asked[1].keys[0].text, "other");
  const auto denied = handler_.top_keys.top({});
  ASSERT_EQ(denied.size(), 1U);
  EXPECT_EQ(denied[0].keys[0].text, "k");
}

TEST_F(TopCommands, ExplainsWhatIsWrong) {
  EXPECT_EQ(ask({"logn"}), "-ERR there is no rule 'logn'\r\n");
  EXPECT_EQ(ask({"login", "BY"}),
            "-ERR 'BY' has no value; expected pairs of LIMIT, BY, OVER or COUNT and a value\r\n");
  EXPECT_EQ(ask({"login", "BY", "size"}), "-ERR BY is 'size'; expected asked or denied\r\n");
  EXPECT_EQ(ask({"login", "OVER", "week"}),
            "-ERR OVER is 'week'; expected minute, hour or day\r\n");
  EXPECT_EQ(ask({"login", "COUNT", "0"}).substr(0, 26), "-ERR COUNT is out of range");
  EXPECT_EQ(ask({"login", "FOR", "1"}),
            "-ERR 'FOR' is not an option; expected LIMIT, BY, OVER or COUNT\r\n");
  EXPECT_EQ(ask({"login", "LIMIT", "user"}),
            "-ERR the rule 'login' has no limit 'user'; expected one of: ip\r\n");
}

}  // namespace
}  // namespace sluice::server::resp
