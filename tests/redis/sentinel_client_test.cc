// The client of a master that Sentinels watch. failover_test.cc kills and pauses masters.

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/redis/client_probe.h"
#include "tests/redis/redis_sentinels.h"
#include "tests/redis/redis_server.h"

namespace sluice_redis {
namespace {

using namespace std::chrono_literals;

class RedisSentinel : public ::testing::Test {
 protected:
  static sluice::RedisOptions options_of(const std::string& url) {
    sluice::RedisOptions options;
    options.url = url;
    options.deadline = options.connect_timeout = sluice::testing::kPatience;
    return options;
  }
  // Lets a Sentinel make a replica the master, as soon as it knows a replica that is good enough.
  void fail_over() {
    sluice::testing::wait_until("the Sentinel fails over", [this] {
      RedisConnection sentinel(*watched.sentinels[2]);
      return RedisConnection::text(sentinel.run({"SENTINEL", "FAILOVER", "limits"})) == "OK";
    });
  }

  Watched watched{3'600'000};  // no Sentinel finds that a server is down
};

TEST_F(RedisSentinel, NamesTheMaster) {
  for (const int protocol : {2, 3}) {
    auto options = options_of(watched.url());
    options.protocol = protocol;
    Probe probe(options);
    EXPECT_NE(probe.ask({"INFO", "replication"}).find("role:master"), std::string::npos);
  }
}

TEST_F(RedisSentinel, FailsOverOnDemandAndTheClientFollows) {
  Probe probe(options_of(watched.url()));
  probe.ask_until_answered({"SET", "key", "1"});
  const std::string before = watched.master();
  fail_over();
  probe.run_until_saw("topology_changed");
  probe.ask_until_answered({"SET", "key", "2"});
  sluice::testing::wait_until("the Sentinel names another master",
                              [&] { return watched.master(2) != before; });
}

TEST_F(RedisSentinel, ThatIsKilledOrPausedIsReplacedByAnother) {
  watched.sentinels[0]->kill_now();
  watched.sentinels[1]->pause();
  auto options = options_of(watched.url());
  options.connect_timeout = 200ms;
  Probe probe(options);
  probe.ask_until_answered({"SET", "key", "1"});
  watched.sentinels[1]->resume();
}

TEST_F(RedisSentinel, NamesOtherSentinelsToTheClient) {
  Probe probe(options_of(watched.url(0, 1)));
  probe.ask_until_answered({"SET", "key", "1"});
  watched.sentinels[0]->kill_now();
  fail_over();
  probe.run_until_saw("topology_changed");
  probe.ask_until_answered({"SET", "key", "2"});
}

TEST_F(RedisSentinel, ThatDoesNotKnowTheMasterIsNamedInTheError) {
  auto options = options_of(watched.url());
  options.url.replace(options.url.rfind('/'), std::string::npos, "/others");
  Probe probe(options);
  const std::string said = probe.ask({"PING"});
  const std::string first = "unavailable: " + options.url +
                            ": Sentinel 127.0.0.1:" + std::to_string(watched.sentinel_ports[0]) +
                            ": it knows no master 'others'; Sentinel 127.0.0.1:";
  EXPECT_EQ(said.find(first), 0u) << said;
}

TEST(RedisSentinelPassword, DiffersFromTheMastersPassword) {
  std::unique_ptr<RedisServer> server;
  std::unique_ptr<RedisServer> sentinel;
  std::string port;
  on_free_port([&](std::uint16_t number) {
    port = std::to_string(number);
    server = std::make_unique<RedisServer>(std::vector<std::string>{
        "--port", port, "--bind", "127.0.0.1", "--requirepass", "of-the-master"});
  });
  sluice::RedisOptions options;
  options.deadline = sluice::testing::kPatience;
  on_free_port([&](std::uint16_t number) {
    const std::string file = server->folder() + "/sentinel.conf";
    std::ofstream(file) << "bind 127.0.0.1\nrequirepass of-the-sentinel\n"
                        << "sentinel monitor limits 127.0.0.1 " << port << " 1\n"
                        << "sentinel auth-pass limits of-the-master\n";
    options.url = "redis+sentinel://:of-the-master@127.0.0.1:" + std::to_string(number) + "/limits";
    sentinel = std::make_unique<RedisServer>(
        std::vector<std::string>{"--port", std::to_string(number), "--sentinel"}, file);
  });
  options.sentinel_password = "of-the-sentinel";
  EXPECT_EQ(Probe(options).ask({"SET", "key", "1"}), "OK");
  options.sentinel_password = "wrong";
  const std::string said = Probe(options).ask({"PING"});
  EXPECT_NE(said.find(": wrong user name or password"), said.npos) << said;
  EXPECT_EQ(said.find("of-the-master"), said.npos) << said;
}

}  // namespace
}  // namespace sluice_redis
