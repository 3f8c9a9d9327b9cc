#include "stores/redis/client/clients.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stores/redis/client/test_reply.h"

namespace sluice::redis {
namespace {

ServerAddress at(std::uint16_t port) { return {.host = "10.0.0.1", .port = port}; }

std::string others(const std::vector<std::string>& ports) {
  std::string out = "*" + std::to_string(ports.size()) + "\r\n";
  for (const std::string& port : ports) {
    out += list({"name", "0af3", "ip", "10.0.0.1", "port", port, "flags", "sentinel"});
  }
  return out;
}

class SentinelsTest : public ::testing::Test {
 protected:
  std::optional<ServerAddress> hears(std::string_view reply) {
    return sentinels.on_master(*TestReply(reply));
  }
  // Whom it asks from now on, each in vain.
  std::vector<int> asked_in_vain() {
    std::vector<int> out;
    for (sentinels.begin(); sentinels.to_ask() != nullptr; sentinels.on_failed("gone")) {
      out.push_back(sentinels.to_ask()->port);
    }
    return out;
  }

  Sentinels sentinels{{at(1), at(2), at(3)}, "limits"};
};

TEST_F(SentinelsTest, AreAskedInTurnUntilAllHaveFailed) {
  EXPECT_EQ(asked_in_vain(), (std::vector{1, 2, 3}));
  EXPECT_EQ(sentinels.why(),
            "Sentinel 10.0.0.1:1: gone; Sentinel 10.0.0.1:2: gone; Sentinel 10.0.0.1:3: gone");
  EXPECT_EQ(asked_in_vain(), (std::vector{1, 2, 3}));
}

TEST_F(SentinelsTest, AreAskedFromTheOneThatAnsweredLast) {
  sentinels.begin();
  sentinels.on_failed("gone");
  const auto master = hears(list({"10.0.0.9", "6379"}));
  ASSERT_TRUE(master);
  EXPECT_EQ(master->to_string(), "10.0.0.9:6379");
  EXPECT_EQ(asked_in_vain(), (std::vector{2, 3, 1}));
}

TEST_F(SentinelsTest, AreSkippedIfTheyDoNotKnowTheMaster) {
  sentinels.begin();
  EXPECT_FALSE(hears("*-1\r\n"));
  EXPECT_EQ(sentinels.to_ask()->port, 2);
  EXPECT_FALSE(hears("_\r\n"));
  EXPECT_EQ(sentinels.to_ask()->port, 3);
  EXPECT_EQ(sentinels.why(),
            "Sentinel 10.0.0.1:1: it knows no master 'limits'; "
            "Sentinel 10.0.0.1:2: it knows no master 'limits'");
}

TEST_F(SentinelsTest, AreSkippedIfTheirReplyIsNoAddress) {
  for (const std::string& reply :
       {list({"10.0.0.9"}), list({"10.0.0.9", "0"}), list({"10.0.0.9", "65536"}),
        list({"10.0.0.9", "6379x"}), list({"", "6379"}), list({"/run/redis.sock", "6379"}),
        std::string("+OK\r\n"), std::string("*2\r\n:1\r\n:2\r\n")}) {
    sentinels.begin();
    EXPECT_FALSE(hears(reply)) << reply;
    EXPECT_NE(sentinels.why().find("its answer is not an address"), std::string::npos);
  }
}

TEST_F(SentinelsTest, AreThoseOfTheLatestListAndTheUrl) {
  sentinels.begin();
  sentinels.on_others(*TestReply(others({"2", "7", "8"})));
  EXPECT_EQ(asked_in_vain(), (std::vector{1, 2, 3, 7, 8}));
  sentinels.begin();
  sentinels.on_others(*TestReply(others({"8"})));
  EXPECT_EQ(asked_in_vain(), (std::vector{1, 2, 3, 8}));
}

TEST_F(SentinelsTest, KeepTheOneThatSentTheList) {
  sentinels.begin();
  sentinels.on_others(*TestReply(others({"7", "8"})));
  for (int i = 0; i < 4; ++i) sentinels.on_failed("gone");
  ASSERT_EQ(sentinels.to_ask()->port, 8);  // it does not name itself
  sentinels.on_others(*TestReply(others({"7", "9"})));
  EXPECT_EQ(sentinels.to_ask()->port, 8);
  EXPECT_EQ(asked_in_vain(), (std::vector{8, 7, 9, 1, 2, 3}));
}

TEST_F(SentinelsTest, IgnoreAReplyThatIsNoListOfSentinels) {
  sentinels.begin();
  for (const std::string& reply : {std::string("+OK\r\n"), std::string("*1\r\n:1\r\n"),
                                   "*1\r\n" + list({"ip", "10.0.0.1", "port"}),
                                   "*1\r\n" + list({"ip", "10.0.0.1", "port", "x"})}) {
    sentinels.on_others(*TestReply(reply));
  }
  EXPECT_EQ(asked_in_vain(), (std::vector{1, 2, 3}));
}

}  // namespace
}  // namespace sluice::redis
