#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stores/redis/client/clients.h"
#include "stores/redis/client/test_client.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

std::string address(std::string_view host, std::string_view port) { return list({host, port}); }

// The list of Sentinels at this port of hosts.
std::string sentinels(const std::vector<std::string_view>& hosts) {
  std::vector<std::string> all;
  for (const std::string_view host : hosts) {
    all.push_back(list({"name", "0af3", "ip", host, "port", "9", "flags", "sentinel"}));
  }
  return array(all);
}

// Two Sentinels, s1:1 and s2:2, which watch the master `main`.
class SentinelClientTest : public ::testing::Test {
 protected:
  SentinelClientTest() { test.loop().turn(); }

  // The Sentinel's answers to its two questions: the other Sentinels, and `master`.
  static void names(TestTransport& sentinel, const std::string& master,
                    const std::string& others = "*0\r\n") {
    EXPECT_NE(sentinel.sent().find("GET-MASTER-ADDR-BY-NAME"), std::string::npos);
    sentinel.says(others + master);
  }
  // Whom the client asks for the master from now on, each in vain.
  std::string asked_in_vain() {
    std::string out;
    for (std::size_t before = 0; before != test.connections(); test.loop().turn()) {
      before = test.connections();
      out += test.last().address() + " ";
      test.last().ends("gone");
    }
    test.loop().wait(100ms);  // the next search
    return out;
  }
  // The Sentinel that is asked reports others, and does not know the master.
  void hears_in_vain(const std::string& others) {
    become_ready(test.last());
    names(test.last(), "*-1\r\n", others);
    test.loop().turn();
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

TEST_F(SentinelClientTest, AsksAnotherSentinelIfAnAnswerIsNoAddress) {
  for (const std::string& reply :
       {list({"10.0.0.9"}), list({"10.0.0.9", "0"}), list({"10.0.0.9", "65536"}),
        list({"10.0.0.9", "6379x"}), list({"", "6379"}), list({"/run/redis.sock", "6379"}),
        std::string("+OK\r\n"), std::string("*2\r\n:1\r\n:2\r\n")}) {
    become_ready(test.last());
    names(test.last(), reply);
    test.loop().turn();
    EXPECT_EQ(test.last().address(), "s2:2") << reply;
    EXPECT_EQ(asked_in_vain(), "s2:2 ");
    EXPECT_NE(test.client->why().find("Sentinel s1:1: its answer is not an address; "),
              std::string::npos)
        << reply;
  }
}

TEST_F(SentinelClientTest, AsksTheSentinelsOfTheUrlAndOfTheLatestList) {
  hears_in_vain(sentinels({"s3", "s4"}));
  EXPECT_EQ(asked_in_vain(), "s2:2 s3:9 s4:9 ");
  hears_in_vain(sentinels({"s4"}));
  EXPECT_EQ(asked_in_vain(), "s2:2 s4:9 ");
  EXPECT_EQ(asked_in_vain(), "s1:1 s2:2 s4:9 ");
}

TEST_F(SentinelClientTest, KeepsASentinelThatDoesNotReportItself) {
  hears_in_vain(sentinels({"s3", "s4"}));
  test.last().ends("gone");
  test.loop().turn();
  ASSERT_EQ(test.last().address(), "s3:9");
  hears_in_vain(sentinels({"s5"}));
  EXPECT_EQ(asked_in_vain(), "s5:9 ") << "four of four have been asked";
  EXPECT_EQ(asked_in_vain(), "s1:1 s2:2 s3:9 s5:9 ");
}

TEST_F(SentinelClientTest, KeepsAtMostSixtyFourSentinels) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("t" + std::to_string(i));
  hears_in_vain(sentinels({names.begin(), names.end()}));
  const std::string asked = asked_in_vain();
  EXPECT_EQ(std::count(asked.begin(), asked.end(), ' '), 63);
}

TEST_F(SentinelClientTest, IgnoresAReplyThatIsNoListOfSentinels) {
  for (const std::string& reply : {std::string("+OK\r\n"), std::string("*1\r\n:1\r\n"),
                                   "*1\r\n" + list({"ip", "10.0.0.1", "port"}),
                                   "*1\r\n" + list({"ip", "10.0.0.1", "port", "x"})}) {
    hears_in_vain(reply);
    EXPECT_EQ(asked_in_vain(), "s2:2 ") << reply;
  }
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
