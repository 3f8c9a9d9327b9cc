#include <gtest/gtest.h>

#include "stores/redis/client/clients.h"
#include "stores/redis/client/test_client.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

std::string address(std::string_view host, std::string_view port) { return list({host, port}); }

// Two Sentinels, s1:1 and s2:2, which watch the master `main`.
class SentinelClientTest : public ::testing::Test {
 protected:
  SentinelClientTest() { test.loop().turn(); }

  // The Sentinel's answers to its two questions: no other Sentinels, and `master`.
  static void names(TestTransport& sentinel, const std::string& master) {
    EXPECT_NE(sentinel.sent().find("GET-MASTER-ADDR-BY-NAME"), std::string::npos);
    sentinel.says("*0\r\n" + master);
  }
  static void become_ready_as(TestTransport& connection, std::string_view role) {
    become_ready(connection);
    EXPECT_EQ(connection.sent(), list({"ROLE"}));
    connection.says(list({role, "0"}));
  }
  void find_master() {
    become_ready(test.to("s1:1"));
    names(test.to("s1:1"), address("a", "7"));
    become_ready_as(test.to("a:7"), "master");
    ASSERT_TRUE(test.client->ready());
  }

  TestClient test{make_sentinel_client,
                  {.url = "redis+sentinel://s1:1,s2:2/main",
                   .deadline = 50ms,
                   .first_backoff = 20ms,
                   .longest_backoff = 100ms}};
};

TEST_F(SentinelClientTest, ConnectsToTheMasterThatTheFirstSentinelNames) {
  const TestCommand& ping = test.submit({"PING"});
  find_master();
  EXPECT_EQ(test.to("a:7").sent(), list({"PING"}));
  test.to("a:7").says("+PONG\r\n");
  EXPECT_EQ(ping.said, "+PONG");
}

TEST_F(SentinelClientTest, EndsCommandsThatWaitForASentinelAtTheirDeadline) {
  const TestCommand& ping = test.submit({"PING"});
  test.loop().wait(50ms);
  EXPECT_EQ(ping.said, "unavailable: no connection by the deadline");
}

TEST_F(SentinelClientTest, AsksTheNextSentinelIfOneCannotBeReached) {
  test.to("s1:1").ends("Connection refused");
  test.loop().turn();
  become_ready(test.to("s2:2"));
  names(test.to("s2:2"), address("a", "7"));
  become_ready_as(test.to("a:7"), "master");
  EXPECT_TRUE(test.client->ready());
}

TEST_F(SentinelClientTest, AsksTheNextSentinelIfOneDoesNotKnowTheMaster) {
  become_ready(test.to("s1:1"));
  names(test.to("s1:1"), "*-1\r\n");
  test.loop().turn();
  become_ready(test.to("s2:2"));
  names(test.to("s2:2"), address("a", "7"));
  EXPECT_EQ(test.last().address(), "a:7");
}

TEST_F(SentinelClientTest, ReportsWhyNoSentinelAnsweredAndTriesAgain) {
  const TestCommand& ping = test.submit({"PING"});
  test.to("s1:1").ends("Connection refused");
  test.loop().turn();
  become_ready(test.to("s2:2"));
  names(test.to("s2:2"), "*-1\r\n");
  test.loop().turn();
  EXPECT_NE(ping.said.find("Sentinel s1:1: Connection refused; Sentinel s2:2: it knows no master "
                           "'main'"),
            std::string::npos)
      << ping.said;
  const std::size_t before = test.connections();
  test.loop().wait(20ms);
  EXPECT_EQ(test.connections(), before + 1);
}

TEST_F(SentinelClientTest, FollowsAFailoverThatASentinelReports) {
  find_master();
  const TestCommand& before = test.submit({"A"});
  test.to("a:7").sent();
  test.loop().wait(1s - 1us);
  EXPECT_EQ(test.to("s1:1").sent(), "");
  test.loop().wait(1us);
  names(test.to("s1:1"), address("b", "8"));
  EXPECT_EQ(test.events.back(), "topology_changed b:8 reported by the Sentinels");
  const TestCommand& after = test.submit({"B"});
  become_ready_as(test.to("b:8"), "master");
  EXPECT_EQ(test.to("b:8").sent(), list({"B"}));
  test.to("b:8").says("+OK\r\n");
  EXPECT_EQ(after.said, "+OK");
  EXPECT_EQ(before.said, "timeout: no answer by the deadline") << "never sent twice";
}

TEST_F(SentinelClientTest, KeepsItsConnectionWhileTheSentinelsNameTheSameMaster) {
  find_master();
  for (int i = 0; i < 3; ++i) {
    test.loop().wait(1s);
    names(test.to("s1:1"), address("a", "7"));
  }
  EXPECT_EQ(test.connections(), 2u);
}

TEST_F(SentinelClientTest, AsksAnotherSentinelIfTheNamedServerIsAReplica) {
  become_ready(test.to("s1:1"));
  names(test.to("s1:1"), address("a", "7"));
  become_ready_as(test.to("a:7"), "slave");
  EXPECT_EQ(test.events.back(), "connect_failed a:7 the server is not a master but a slave");
  test.loop().wait(20ms);
  become_ready(test.to("s2:2"));
  names(test.to("s2:2"), address("b", "8"));
  become_ready_as(test.to("b:8"), "master");
  EXPECT_TRUE(test.client->ready());
}

TEST_F(SentinelClientTest, EndsItsRequestsToSentinelsWhenItIsDestroyed) {
  const TestCommand& ping = test.submit({"PING"});
  const auto sentinel = test.loop().connections.front();
  become_ready(*sentinel);
  sentinel->sent();
  test.client.reset();
  EXPECT_EQ(ping.said, "unavailable: the client is closed");
  EXPECT_FALSE(sentinel->is_open());
}

}  // namespace
}  // namespace sluice::redis
