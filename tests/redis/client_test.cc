// The client with a real server: the result of each command, and automatic recovery.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/redis/client_probe.h"
#include "tests/redis/redis_server.h"

namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::RedisOptions;
using sluice::redis::Script;

// The sha1 of the text, as printed by redis-cli SCRIPT LOAD.
constexpr Script kSum = {.name = "sum",
                         .text = "return tonumber(ARGV[1]) + tonumber(ARGV[2])",
                         .sha1 = "189758df5f16d279fa4852c3ee51f702e4ea0414"};

RedisOptions options_of(const std::string& url) {
  RedisOptions options;
  options.url = url;
  options.deadline = options.connect_timeout = sluice::testing::kPatience;
  return options;
}

class RedisClient : public ::testing::Test {
 protected:
  RedisServer server;
  RedisOptions options = options_of(server.url());
};

TEST_F(RedisClient, SpeaksTheProtocolOfItsOptions) {
  for (const auto& [protocol, shown] : {std::pair{0, "resp=3"}, {2, "resp=2"}, {3, "resp=3"}}) {
    options.protocol = protocol;
    Probe probe(options);
    const std::string info = probe.ask({"CLIENT", "INFO"});
    EXPECT_NE(info.find(shown), info.npos) << info;
    EXPECT_NE(info.find("name=sluice"), info.npos) << info;
  }
}

TEST_F(RedisClient, ReadsTypesOfResp3) {
  options.protocol = 3;
  Probe probe(options);
  EXPECT_EQ(probe.ask({"HSET", "hash", "field", "1"}), "1");
  EXPECT_EQ(probe.ask({"HGETALL", "hash"}), "[field 1]");
  EXPECT_EQ(probe.ask({"GET", "nothing"}), "nil");
  EXPECT_EQ(probe.ask({"DEBUG", "PROTOCOL", "attrib"}).find("error:"), 0u);  // DEBUG is off
  EXPECT_EQ(probe.ask({"ZADD", "sorted", "1.5", "a"}), "1");
  EXPECT_EQ(probe.ask({"ZSCORE", "sorted", "a"}), "1.5");
}

TEST_F(RedisClient, UsesTheDatabaseOfTheUrl) {
  Probe probe(options_of(server.url() + "?db=7"));
  EXPECT_EQ(probe.ask({"SET", "here", "1"}), "OK");
  const std::string info = probe.ask({"CLIENT", "INFO"});
  EXPECT_NE(info.find(" db=7 "), info.npos) << info;
}

TEST_F(RedisClient, ReportsADatabaseThatDoesNotExist) {
  Probe probe(options_of(server.url() + "?db=99"));
  const std::string said = probe.ask({"PING"});
  EXPECT_EQ(said.find("unavailable: the server has no database 99"), 0u) << said;
}

TEST_F(RedisClient, AnswersAllCommandsOfATurnInOrder) {
  Probe probe(options);
  std::vector<Ask> asks(1000);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    asks[i].append("ECHO");
    asks[i].append(i);
  }
  probe.ask_all(asks);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    ASSERT_EQ(asks[i].said, std::to_string(i));
    ASSERT_EQ(asks[i].times, 1);
  }
  EXPECT_EQ(probe.client->stats().requests, asks.size());
  EXPECT_EQ(probe.client->stats().pending, 0u);
}

TEST_F(RedisClient, SendsALargeCommandAndReadsALargeReply) {
  Probe probe(options);
  const std::string large(8 << 20, 'x');
  EXPECT_EQ(probe.ask({"SET", "large", large}), "OK");
  EXPECT_EQ(probe.ask({"GET", "large"}), large);
  EXPECT_EQ(probe.ask({"PING"}), "PONG");
}

TEST_F(RedisClient, SendsAScriptOnceForManyCommands) {
  Probe probe(options);
  for (std::uint64_t sent = 1; sent <= 2; ++sent) {
    std::vector<Ask> asks;
    for (int i = 0; i < 100; ++i) {
      const std::string number = std::to_string(i);
      asks.emplace_back(Ask(kSum, {"0", number, number}));
    }
    probe.ask_all(asks);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(asks[static_cast<std::size_t>(i)].said, std::to_string(2 * i));
    }
    EXPECT_EQ(probe.client->stats().scripts_sent, sent);
    EXPECT_EQ(probe.ask({"SCRIPT", "FLUSH"}), "OK");
  }
  EXPECT_TRUE(probe.saw("script_loaded " + server.socket() + " sum"));
}

TEST_F(RedisClient, ReturnsTheErrorOfTheServerAndContinues) {
  Probe probe(options);
  EXPECT_EQ(probe.ask({"RPUSH", "list", "1"}), "1");
  EXPECT_EQ(probe.ask({"GET", "list"}).find("error: WRONGTYPE"), 0u);
  EXPECT_EQ(probe.ask({"PING"}), "PONG");
  EXPECT_EQ(probe.client->stats().connects, 1u);
  EXPECT_EQ(probe.client->stats().errors, 1u);
  EXPECT_TRUE(probe.saw("request_failed " + server.socket() + " WRONGTYPE"));
}

TEST_F(RedisClient, DropsALateReply) {
  options.deadline = 100ms;  // "late" has no answer by then, and "mine" perhaps one of several
  Probe probe(options);
  probe.run_until_ready();
  server.pause();
  probe.ask({"ECHO", "late"});
  server.resume();
  EXPECT_EQ(probe.ask_until_answered({"ECHO", "mine"}), "mine");
}

TEST_F(RedisClient, EndsAConnectionWithoutAnswersForTooLong) {
  options.deadline = 50ms;
  Probe probe(options);
  probe.run_until_ready();
  server.pause();
  Ask ping({"PING"});
  probe.client->submit(ping);
  probe.send();
  probe.run_until_saw("connection_lost " + server.socket() + " the server has not answered");
  EXPECT_FALSE(probe.client->ready());
  server.resume();
  probe.ask_until_answered({"PING"});
}

TEST_F(RedisClient, EndsCommandsUnderWayWhenTheServerIsKilledAndRecovers) {
  Probe probe(options);
  probe.run_until_ready();
  server.pause();
  std::vector<Ask> asks(10);
  for (Ask& one : asks) {
    one.append("PING");
    probe.client->submit(one);
  }
  probe.send();
  server.kill_now();
  probe.run_until("they have ended", [&] { return asks.back().times > 0; });
  for (const Ask& one : asks) {
    EXPECT_EQ(one.times, 1);
    EXPECT_EQ(one.failure, Failure::kLost) << one.said;
  }
  probe.run_until_saw("connect_failed");
  Ask refused({"PING"});
  probe.client->submit(refused);  // not waiting for anything
  EXPECT_EQ(refused.failure, Failure::kUnavailable);
  EXPECT_FALSE(probe.client->why().empty());
  server.start();
  probe.ask_until_answered({"PING"});
  EXPECT_EQ(probe.client->why(), "");
  EXPECT_EQ(probe.client->stats().connects, 2u);
  EXPECT_EQ(probe.client->stats().connected, 1u);
}

TEST_F(RedisClient, RefusesCommandsIfTooManyAreUnderWay) {
  options.max_pending = 3;
  Probe probe(options);
  probe.run_until_ready();
  std::vector<Ask> asks(4);
  for (Ask& one : asks) one.append("PING");
  probe.ask_all(asks);
  EXPECT_EQ(asks[2].said, "PONG");
  EXPECT_EQ(asks[3].failure, Failure::kUnavailable);
  EXPECT_EQ(asks[3].said, "too many requests are pending");
}

TEST_F(RedisClient, AcceptsAnEndedCommandAgainAtOnce) {
  Probe probe(options);
  Ask again({"INCR", "counter"});
  again.then = [&] {
    if (again.times < 100) probe.client->submit(again);
  };
  probe.client->submit(again);
  probe.run_until("it has ended often", [&] { return again.times == 100; });
  EXPECT_EQ(again.said, "100");
}

TEST_F(RedisClient, EndsEachCommandOnceWhenItIsDestroyed) {
  Probe probe(options);
  probe.run_until_ready();
  server.pause();
  sluice::redis::Client& client = *probe.client;
  std::vector<Ask> asks(8);
  std::vector<Ask> after(asks.size());  // submitted while it is being destroyed
  for (std::size_t i = 0; i < asks.size(); ++i) {
    asks[i].append("PING");
    after[i].append("PING");
    asks[i].then = [&, i] { client.submit(after[i]); };
    client.submit(asks[i]);
    if (i == 3) probe.send();
  }
  probe.client.reset();
  for (std::size_t i = 0; i < asks.size(); ++i) {
    EXPECT_EQ(asks[i].times, 1);
    EXPECT_EQ(asks[i].failure, i <= 3 ? Failure::kLost : Failure::kUnavailable) << i;
    EXPECT_EQ(after[i].times, 1);
    EXPECT_EQ(after[i].failure, Failure::kUnavailable);
  }
}

TEST_F(RedisClient, EndsWaitingCommandsWhenItIsDestroyed) {
  Probe probe(options);
  Ask waiting({"PING"});
  Ask after({"PING"});
  sluice::redis::Client& client = *probe.client;
  waiting.then = [&] { client.submit(after); };
  client.submit(waiting);
  probe.client.reset();
  EXPECT_EQ(waiting.times, 1);
  EXPECT_EQ(waiting.failure, Failure::kUnavailable);
  EXPECT_EQ(after.times, 1);
  EXPECT_EQ(after.failure, Failure::kUnavailable);
}

TEST_F(RedisClient, LeavesAServerWhileItIsAReplica) {
  Probe probe(options);
  EXPECT_EQ(probe.ask({"SET", "key", "1"}), "OK");
  RedisConnection(server).run({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(probe.ask({"SET", "key", "2"}).find("error: READONLY"), 0u);
  probe.run_until_saw("connection_lost");
  RedisConnection(server).run({"REPLICAOF", "NO", "ONE"});
  probe.ask_until_answered({"SET", "key", "3"});
  EXPECT_GE(probe.client->stats().connects, 2u);
}

TEST_F(RedisClient, ReportsAChangedPasswordAndRecovers) {
  RedisConnection admin(server);
  admin.run({"CONFIG", "SET", "requirepass", "first"});
  options.password = "first";
  Probe probe(options);
  EXPECT_EQ(probe.ask({"PING"}), "PONG");
  admin.run({"CONFIG", "SET", "requirepass", "second"});
  admin.run({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  probe.run_until_saw("connect_failed");
  const std::string why = server.socket() + ": wrong user name or password";
  EXPECT_EQ(probe.client->why().find(why), 0u) << probe.client->why();
  EXPECT_EQ(probe.client->why().find("first"), std::string::npos);
  admin.run({"CONFIG", "SET", "requirepass", "first"});
  probe.ask_until_answered({"PING"});
}

TEST_F(RedisClient, ReportsThatTheServerRequiresAPassword) {
  RedisConnection(server).run({"CONFIG", "SET", "requirepass", "secret"});
  Probe probe(options);
  const std::string said = probe.ask({"PING"});
  EXPECT_EQ(said.find("unavailable: the server requires a password"), 0u) << said;
}

TEST_F(RedisClient, ReportsThatTheServerHasTooManyClients) {
  RedisConnection admin(server);
  admin.run({"CONFIG", "SET", "maxclients", "1"});
  Probe probe(options);
  const std::string said = probe.ask({"PING"});
  EXPECT_EQ(said.find("unavailable: the server has its maximum number of clients (maxclients)"), 0u)
      << said;
  admin.run({"CONFIG", "SET", "maxclients", "100"});
  probe.ask_until_answered({"PING"});
}

TEST(RedisClientWithoutServer, EndsACommandByItsDeadlineWithTheReason) {
  RedisOptions options = options_of("redis://127.0.0.1:" + std::to_string(free_port()));
  Probe probe(options);
  const std::string said = probe.ask({"PING"});
  EXPECT_EQ(said, "unavailable: Connection refused");
  EXPECT_TRUE(probe.saw("connect_failed"));
}

TEST(RedisClientWithoutServer, ReportsANameThatCannotBeResolved) {
  Probe probe(options_of("redis://name.invalid"));
  const std::string said = probe.ask({"PING"});
  EXPECT_EQ(said.find("unavailable: the name cannot be looked up"), 0u) << said;
}

}  // namespace
}  // namespace sluice_redis
