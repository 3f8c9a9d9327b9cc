#include "stores/redis/client/clients.h"

#include <gtest/gtest.h>

#include "stores/redis/client/test_client.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

std::string slot_range(int first, int last, std::string_view host, int port) {
  return array({number(first), number(last), array({bulk(host), number(port)})});
}
// Server a:1 serves the slots 0 to 8191, server b:2 the others.
std::string map_of_two() {
  return array({slot_range(0, 8191, "a", 1), slot_range(8192, 16383, "b", 2)});
}

const std::string kAskForMap = list({"CLUSTER", "SLOTS"});
const std::string kAsking = list({"ASKING"});

class ClusterClientTest : public ::testing::Test {
 protected:
  ClusterClientTest() { test.loop().turn(); }

  TestCommand& submit(std::initializer_list<std::string_view> words, std::uint16_t slot) {
    TestCommand& command = test.commands.emplace_back(words);
    command.slot = slot;
    test.client->submit(command);
    return command;
  }
  // Both servers are connected, and the client knows the map.
  void connect_both() {
    const TestCommand& to_a = submit({"A"}, 0);
    const TestCommand& to_b = submit({"B"}, 9000);
    answer_map(map_of_two());
    become_ready(test.to("b:2"));
    answer("a:1", list({"A"}), "+OK\r\n");
    answer("b:2", list({"B"}), "+OK\r\n");
    ASSERT_EQ(to_a.said + to_b.said, "+OK+OK");
  }
  void answer_map(const std::string& map) {
    become_ready(test.to("a:1"));
    answer("a:1", kAskForMap, map);
  }
  // Checks what the server has received, and answers.
  void answer(std::string_view server, const std::string& received, std::string_view said) {
    EXPECT_EQ(test.to(server).sent(), received) << server;
    test.to(server).says(said);
  }

  // Submits a command that ends with this error of a:1. Returns whether the client then asks for
  // the map, and answers with the same one.
  bool asks_for_map_after(const std::string& error) {
    test.loop().wait(1s);
    const TestCommand& command = submit({"GET"}, 42);
    answer("a:1", list({"GET"}), "-" + error + "\r\n");
    EXPECT_EQ(command.said, "!" + error);
    test.loop().turn();
    bool asks = false;
    for (const std::string_view server : {"a:1", "b:2"}) {
      if (test.to(server).sent() != kAskForMap) continue;
      asks = true;
      test.to(server).says(map_of_two());
    }
    return asks;
  }

  TestClient test{make_cluster_client,
                  {.url = "redis+cluster://a:1",
                   .deadline = 50ms,
                   .first_backoff = 20ms,
                   .longest_backoff = 100ms,
                   .max_pending = 4}};
};

TEST_F(ClusterClientTest, SendsCommandsByTheirSlotsOnceItHasAMap) {
  const TestCommand& to_a = submit({"A"}, 0);
  const TestCommand& to_b = submit({"B"}, 8192);
  answer_map(map_of_two());
  EXPECT_EQ(test.events.back(), "topology_changed a:1 2 masters serve 16384 of 16384 slots");
  become_ready(test.to("b:2"));
  answer("a:1", list({"A"}), "+A\r\n");
  answer("b:2", list({"B"}), "+B\r\n");
  EXPECT_EQ(to_a.said + to_b.said, "+A+B");
  EXPECT_TRUE(test.client->ready());
}

TEST_F(ClusterClientTest, EndsCommandsThatWaitForTheMapAtTheirDeadline) {
  const TestCommand& command = submit({"A"}, 0);
  test.loop().wait(50ms);
  EXPECT_EQ(command.said, "unavailable: no server has sent the map of the slots yet");
}

TEST_F(ClusterClientTest, RefusesCommandsAfterEveryServerHasFailed) {
  const TestCommand& waiting = submit({"A"}, 0);
  test.last().ends("Connection refused");
  EXPECT_EQ(waiting.said, "unavailable: a:1: Connection refused");
  EXPECT_EQ(submit({"A"}, 0).said, "unavailable: a:1: Connection refused");
  test.loop().wait(20ms);
  EXPECT_EQ(test.connections(), 2u) << "and asks again after a backoff";
}

TEST_F(ClusterClientTest, FollowsMovedAndSendsLaterCommandsToTheNewMaster) {
  connect_both();
  const TestCommand& command = submit({"GET"}, 42);
  answer("a:1", list({"GET"}), "-MOVED 42 b:2\r\n");
  answer("b:2", list({"GET"}), "+OK\r\n");
  EXPECT_EQ(command.said, "+OK");
  EXPECT_EQ(test.client->stats().redirects, 1u);
  submit({"SET"}, 42);
  EXPECT_EQ(test.to("b:2").sent(), list({"SET"})) << "without asking a:1 first";
}

TEST_F(ClusterClientTest, AsksForTheMapAgainAfterMoved) {
  connect_both();
  test.loop().wait(100ms);
  submit({"GET"}, 42);
  answer("a:1", list({"GET"}), "-MOVED 42 b:2\r\n");
  test.loop().turn();
  const std::string to_a = test.to("a:1").sent();
  const std::string to_b = test.to("b:2").sent();
  EXPECT_NE((to_a + to_b).find(kAskForMap), std::string::npos);
}

TEST_F(ClusterClientTest, ConnectsToAServerThatOnlyMovedHasNamed) {
  connect_both();
  const TestCommand& command = submit({"GET"}, 42);
  answer("a:1", list({"GET"}), "-MOVED 42 c:3\r\n");
  become_ready(test.to("c:3"));
  answer("c:3", list({"GET"}), "+OK\r\n");
  EXPECT_EQ(command.said, "+OK");
}

TEST_F(ClusterClientTest, FollowsAskForOneCommandAndSendsAskingFirst) {
  connect_both();
  const TestCommand& command = submit({"GET"}, 42);
  answer("a:1", list({"GET"}), "-ASK 42 b:2\r\n");
  answer("b:2", kAsking + list({"GET"}), "+OK\r\n+OK\r\n");
  EXPECT_EQ(command.said, "+OK");
  submit({"SET"}, 42);
  EXPECT_EQ(test.to("a:1").sent(), list({"SET"}));
}

TEST_F(ClusterClientTest, ReadsNamesIPv6AndAMissingHostInARedirect) {
  connect_both();
  const auto asked_after = [this](const std::string& error) {
    submit({"GET"}, 42);
    answer("a:1", list({"GET"}), "-" + error + "\r\n");
    return test.last().address();
  };
  EXPECT_EQ(asked_after("ASK 42 a.example:7001"), "a.example:7001");
  EXPECT_EQ(asked_after("ASK 42 ::1:7001"), "[::1]:7001");
  EXPECT_EQ(asked_after("ASK 42 [::2]:7001"), "[::2]:7001");
  EXPECT_EQ(asked_after("ASK 42 :7001"), "a:7001") << "a server without a host is the same one";
}

TEST_F(ClusterClientTest, EndsACommandAfterARedirectThatCannotBeReadOrAnUnreadyServer) {
  connect_both();
  for (const char* error :
       {"MOVED", "MOVED 1", "MOVED x b:2", "MOVED 16384 b:2", "MOVED 1 b", "MOVED 1 b:0",
        "MOVED 1 b:65536", "MOVED 1 b:70x", "MOVED 1 ?:2", "ASK 1 ?:2", "ASK -1 b:2",
        "CLUSTERDOWN Hash slot not served", "MASTERDOWN Link with MASTER is down",
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica."}) {
    EXPECT_TRUE(asks_for_map_after(error)) << error;
  }
}

TEST_F(ClusterClientTest, KeepsTheMapAfterOtherErrors) {
  connect_both();
  for (const char* error : {"", "ERR MOVED 1 b:2", "MOVEDX 1 b:2", "moved 1 b:2", "WRONGTYPE",
                            "CROSSSLOT Keys in request don't hash to the same slot", "OOM x"}) {
    EXPECT_FALSE(asks_for_map_after(error)) << error;
  }
}

// A link notices deadlines close to each other at the same time.
TEST_F(ClusterClientTest, AfterTheDeadlineEndsACommandThatMovedButChangesTheMap) {
  connect_both();
  submit({"A"}, 42);
  test.loop().wait(100us);
  const TestCommand& command = submit({"B"}, 42);
  test.loop().wait(50ms);
  ASSERT_EQ(command.times, 0);
  answer("a:1", list({"A"}) + list({"B"}), "+OK\r\n-MOVED 42 b:2\r\n");
  EXPECT_EQ(command.said, "!MOVED 42 b:2");
  submit({"C"}, 42);
  EXPECT_EQ(test.to("b:2").sent(), list({"C"}));
}

TEST_F(ClusterClientTest, GivesUpAfterFiveRedirects) {
  connect_both();
  const TestCommand& command = submit({"GET"}, 42);
  for (int i = 0; i < 3; ++i) {
    answer("a:1", list({"GET"}), "-MOVED 42 b:2\r\n");
    if (i < 2 || command.times == 0) answer("b:2", list({"GET"}), "-MOVED 42 a:1\r\n");
  }
  EXPECT_EQ(command.said, "!MOVED 42 a:1");
  EXPECT_EQ(command.times, 1);
}

TEST_F(ClusterClientTest, SendsAgainAfterTryAgainUntilTheDeadline) {
  connect_both();
  const TestCommand& command = submit({"MGET"}, 42);
  int attempts = 0;
  while (command.times == 0 && attempts < 100) {
    answer("a:1", list({"MGET"}), "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    ++attempts;
    test.loop().wait(5ms);
  }
  EXPECT_EQ(command.said, "!TRYAGAIN Multiple keys request during rehashing of slot");
  EXPECT_EQ(attempts, 10) << "every 5 ms for 50 ms";
}

TEST_F(ClusterClientTest, EndsACommandThatIsDivisibleAtOnceAfterTryAgain) {
  connect_both();
  TestCommand command({"EVAL"});
  command.slot = 42;
  command.is_divisible = true;
  test.client->submit(command);
  const std::size_t events = test.events.size();
  answer("a:1", list({"EVAL"}), "-TRYAGAIN\r\n");
  EXPECT_EQ(command.said, "!TRYAGAIN");
  EXPECT_EQ(test.events.size(), events) << "its caller sends it again";
}

TEST_F(ClusterClientTest, CountsRedirectsAgainAfterTryAgain) {
  connect_both();
  const TestCommand& command = submit({"MGET"}, 42);
  for (int i = 0; i < 3; ++i) {
    answer("a:1", list({"MGET"}), "-ASK 42 b:2\r\n");
    answer("b:2", kAsking + list({"MGET"}), "+OK\r\n-ASK 42 a:1\r\n");
    answer("a:1", kAsking + list({"MGET"}), "+OK\r\n-TRYAGAIN\r\n");
    test.loop().wait(5ms);
  }
  answer("a:1", list({"MGET"}), "-ASK 42 b:2\r\n");
  answer("b:2", kAsking + list({"MGET"}), "+OK\r\n+OK\r\n");
  EXPECT_EQ(command.said, "+OK");
}

TEST_F(ClusterClientTest, NeverRepeatsACommandWhoseConnectionWasLost) {
  connect_both();
  const TestCommand& command = submit({"INCR"}, 42);
  EXPECT_EQ(test.to("a:1").sent(), list({"INCR"}));
  test.to("a:1").ends();
  EXPECT_EQ(command.said, "lost: the server closed the connection");
}

TEST_F(ClusterClientTest, FollowsAFailoverThatTheMapShows) {
  connect_both();
  test.loop().wait(1s);
  test.to("a:1").ends("Connection reset");
  test.loop().turn();
  answer("b:2", kAskForMap, array({slot_range(0, 8191, "c", 3), slot_range(8192, 16383, "b", 2)}));
  const TestCommand& command = submit({"GET"}, 42);
  become_ready(test.to("c:3"));
  answer("c:3", list({"GET"}), "+OK\r\n");
  EXPECT_EQ(command.said, "+OK");
}

TEST_F(ClusterClientTest, ReportsNoFailureOfAServerThatIsNoMaster) {
  connect_both();
  const std::size_t before = test.events.size();
  submit({"GET"}, 42);
  answer("a:1", list({"GET"}), "-ASK 42 c:3\r\n");
  test.to("c:3").ends("Connection refused");
  EXPECT_EQ(test.events.size(), before);
}

TEST_F(ClusterClientTest, EndsACommandAtItsDeadlineOnASilentServer) {
  connect_both();
  const TestCommand& command = submit({"GET"}, 42);
  test.to("a:1").sent();
  test.loop().wait(50ms);
  EXPECT_EQ(command.said, "timeout: no answer by the deadline");
  EXPECT_EQ(test.client->stats().timeouts, 1u);
}

TEST_F(ClusterClientTest, RefusesASlotThatNoMasterServes) {
  answer_map(array({slot_range(0, 8191, "a", 1)}));
  EXPECT_EQ(submit({"GET"}, 9000).said, "unavailable: no master serves slot 9000");
}

TEST_F(ClusterClientTest, ConnectsToFewOfThousandsOfMastersAtOnce) {
  constexpr int kMasters = 3000;
  constexpr std::size_t kAtOnce = 128;
  std::vector<std::string> ranges;
  for (int i = 0; i < kMasters; ++i) ranges.push_back(slot_range(i, i, "m" + std::to_string(i), 1));
  answer_map(array(ranges));
  for (std::uint16_t slot = 0; slot < kMasters; ++slot) submit({"A"}, slot);
  EXPECT_EQ(test.connections(), 1 + kAtOnce);
  EXPECT_EQ(test.commands.back().said,
            "unavailable: m2999:1: too many other servers are being connected to");
  test.loop().wait(50ms);
  for (const TestCommand& command : test.commands) EXPECT_EQ(command.times, 1);
  for (std::size_t i = 1; i <= kAtOnce; ++i) test.loop().connections[i]->ends("refused");
  test.loop().wait(10ms);
  EXPECT_EQ(test.connections(), 1 + 2 * kAtOnce) << "then to the next ones";
  become_ready(test.last());
  test.loop().wait(10ms);
  EXPECT_EQ(test.connections(), 2 + 2 * kAtOnce);
}

TEST_F(ClusterClientTest, ReportsAnErrorInsteadOfAMap) {
  const TestCommand& waiting = submit({"A"}, 0);
  answer_map("-ERR This instance has cluster support disabled\r\n");
  EXPECT_EQ(waiting.said, "unavailable: a:1: ERR This instance has cluster support disabled");
}

TEST_F(ClusterClientTest, RefusesCommandsIfTooManyWaitForTheMap) {
  for (int i = 0; i < 4; ++i) submit({"A"}, 0);
  EXPECT_EQ(submit({"A"}, 0).said, "unavailable: too many requests are waiting");
  EXPECT_EQ(test.client->stats().pending, 5u) << "with the question for the map";
}

TEST_F(ClusterClientTest, EndsEachCommandOnceWhenItIsDestroyed) {
  connect_both();
  const TestCommand& sent = submit({"GET"}, 42);
  test.to("a:1").sent();
  const TestCommand& unsent = submit({"GET"}, 42);
  test.client.reset();
  EXPECT_EQ(sent.said, "lost: the connection is closed");
  EXPECT_EQ(unsent.said, "unavailable: the connection is closed");
}

}  // namespace
}  // namespace sluice::redis
