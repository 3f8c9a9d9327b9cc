#include "stores/redis/client/clients.h"

#include <gtest/gtest.h>

#include "stores/redis/client/test_client.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;
using Events = std::vector<std::string>;

constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";

class MasterClientTest : public ::testing::Test {
 protected:
  MasterClientTest() { test.loop().turn(); }

  TestClient test{make_standalone_client,
                  {.url = "redis://a:1",
                   .deadline = 50ms,
                   .first_backoff = 20ms,
                   .longest_backoff = 100ms,
                   .max_pending = 2}};
};

TEST_F(MasterClientTest, SendsTheCommandsThatWaitedForTheFirstConnection) {
  const TestCommand& ping = test.submit({"PING"});
  EXPECT_FALSE(test.client->ready());
  become_ready(test.last());
  EXPECT_TRUE(test.client->ready());
  EXPECT_EQ(test.last().sent(), kPing);
  test.last().says("+PONG\r\n");
  EXPECT_EQ(ping.said, "+PONG");
  EXPECT_EQ(test.client->why(), "");
  EXPECT_EQ(test.events, Events{"connected a:1 "});
}

TEST_F(MasterClientTest, EndsCommandsThatWaitTooLong) {
  const TestCommand& ping = test.submit({"PING"});
  test.loop().wait(50ms);
  EXPECT_EQ(ping.said, "unavailable: not sent by the deadline");
  EXPECT_EQ(test.client->stats().pending, 0u);
}

TEST_F(MasterClientTest, RefusesCommandsWhileNoConnectionCanBeMade) {
  const TestCommand& waiting = test.submit({"PING"});
  test.last().ends("Connection refused");
  EXPECT_EQ(waiting.said, "unavailable: Connection refused");
  EXPECT_EQ(test.submit({"PING"}).said, "unavailable: a:1: Connection refused");
  EXPECT_EQ(test.client->stats().errors, 2u);
  EXPECT_EQ(test.events, Events{"connect_failed a:1 Connection refused"});
}

TEST_F(MasterClientTest, TriesAgainAfterABackoffThatDoubles) {
  for (const auto backoff : {20ms, 40ms, 80ms, 100ms, 100ms}) {
    const std::size_t before = test.connections();
    test.last().ends("Connection refused");
    test.loop().wait(backoff - 1us);
    EXPECT_EQ(test.connections(), before) << backoff.count();
    test.loop().wait(1us);
    EXPECT_EQ(test.connections(), before + 1) << backoff.count();
  }
  become_ready(test.last());
  test.submit({"PING"});
  EXPECT_EQ(test.last().sent(), kPing);
}

TEST_F(MasterClientTest, ConnectsAgainAtOnceAfterALongConnection) {
  become_ready(test.last());
  test.loop().wait(100ms);
  test.last().ends();
  const TestCommand& ping = test.submit({"PING"});
  EXPECT_EQ(ping.times, 0) << "it waits for the next connection";
  test.loop().turn();
  ASSERT_EQ(test.connections(), 2u);
  become_ready(test.last());
  EXPECT_EQ(test.last().sent(), kPing);
}

TEST_F(MasterClientTest, WaitsAfterAShortConnection) {
  become_ready(test.last());
  test.last().ends();
  EXPECT_EQ(test.submit({"PING"}).said, "unavailable: a:1: the server closed the connection");
  test.loop().wait(20ms);
  EXPECT_EQ(test.connections(), 2u);
}

TEST_F(MasterClientTest, EndsTheCommandsOfAConnectionThatIsLostInTheMiddleOfAReply) {
  become_ready(test.last());
  const TestCommand& first = test.submit({"GET", "a"});
  const TestCommand& second = test.submit({"GET", "b"});
  test.last().sent();
  test.last().says("$1\r\nx\r\n$100\r\nhalf");
  test.last().ends();
  EXPECT_EQ(first.said, "\"x\"");
  EXPECT_EQ(second.said, "lost: the server closed the connection");
  EXPECT_EQ(second.times, 1);
}

TEST_F(MasterClientTest, ClosesAConnectionWithoutAnAnswerForASecond) {
  become_ready(test.last());
  const TestCommand& ping = test.submit({"PING"});
  test.last().sent();
  test.loop().wait(50ms);
  EXPECT_EQ(ping.said, "timeout: no answer by the deadline");
  EXPECT_TRUE(test.client->ready());
  test.loop().wait(950ms);
  EXPECT_FALSE(test.client->ready());
  EXPECT_EQ(test.events.at(1), "connection_lost a:1 the server has not answered for 1000 ms");
  EXPECT_EQ(test.client->stats().timeouts, 1u);
}

TEST_F(MasterClientTest, LeavesANewReplicaAfterItsLastReply) {
  become_ready(test.last());
  test.loop().wait(1s);
  const TestCommand& write = test.submit({"SET", "a", "1"});
  const TestCommand& read = test.submit({"GET", "a"});
  test.last().sent();
  test.last().says("-READONLY You can't write against a read only replica.\r\n$1\r\nx\r\n");
  EXPECT_EQ(write.said, "!READONLY You can't write against a read only replica.");
  EXPECT_EQ(read.said, "\"x\"");
  test.loop().turn();
  EXPECT_EQ(test.connections(), 2u);
  EXPECT_EQ(test.events.back().substr(0, 28), "connection_lost a:1 READONLY");
}

TEST_F(MasterClientTest, KeepsAConnectionThatItLeavesUntilItsCommandsEnd) {
  become_ready(test.last());
  test.loop().wait(1s);
  TestTransport& old = test.last();
  const TestCommand& write = test.submit({"SET", "a", "1"});
  const TestCommand& read = test.submit({"GET", "a"});
  old.sent();
  old.says("-READONLY\r\n");
  EXPECT_EQ(write.said, "!READONLY");
  test.loop().turn();
  EXPECT_EQ(read.times, 0);
  old.says("$1\r\nx\r\n");
  EXPECT_EQ(read.said, "\"x\"");
  test.loop().wait(100ms);
  EXPECT_FALSE(old.is_open()) << "after twice the deadline";
}

TEST_F(MasterClientTest, KeepsTheConnectionAfterAnErrorOfACommand) {
  become_ready(test.last());
  const TestCommand& get = test.submit({"GET", "list"});
  test.last().says("-WRONGTYPE Operation against a key\r\n");
  test.loop().turn();
  EXPECT_EQ(get.said, "!WRONGTYPE Operation against a key");
  EXPECT_EQ(test.connections(), 1u);
  EXPECT_EQ(test.events.back(), "request_failed a:1 WRONGTYPE Operation against a key");
}

TEST_F(MasterClientTest, RefusesCommandsIfTooManyAreUnderWay) {
  become_ready(test.last());
  test.submit({"PING"});
  test.submit({"PING"});
  EXPECT_EQ(test.submit({"PING"}).said, "unavailable: too many requests are pending");
  EXPECT_EQ(test.client->stats().pending, 2u);
}

TEST_F(MasterClientTest, EndsEachCommandOnceWhenItIsDestroyed) {
  become_ready(test.last());
  TestCommand& sent = test.submit({"A"});
  test.last().sent();
  TestCommand& unsent = test.submit({"B"});
  TestCommand after({"C"});
  Client* const client = test.client.release();
  sent.then = [&] { client->submit(after); };
  delete client;
  EXPECT_EQ(sent.said, "lost: the connection is closed");
  EXPECT_EQ(unsent.said, "unavailable: the connection is closed");
  EXPECT_EQ(after.times, 1);
  EXPECT_EQ(after.said.find("unavailable: "), 0u);
}

}  // namespace
}  // namespace sluice::redis
