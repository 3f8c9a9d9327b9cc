// The client of a master that Sentinels watch: one master, two replicas, three Sentinels.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/redis/client_probe.h"
#include "tests/redis/redis_cluster.h"
#include "tests/redis/redis_server.h"

namespace sluice_redis {
namespace {

using namespace std::chrono_literals;

// Starts again with other ports if another process has taken one meanwhile.
template <typename Make>
auto on_free_port(Make make) {
  for (int attempt = 0;; ++attempt) {
    try {
      return make(free_port());
    } catch (const std::runtime_error&) {
      if (attempt == 4) throw;
    }
  }
}

class Watched {
 public:
  Watched() {
    for (std::size_t i = 0; i < servers.size(); ++i) {
      on_free_port([&](std::uint16_t port) { start_server(i, port); });
    }
    RedisCluster::wait_until("the replicas are in step", [&] {
      return role_of(1).find("master_link_status:up") != std::string::npos &&
             role_of(2).find("master_link_status:up") != std::string::npos;
    });
    for (std::size_t i = 0; i < sentinels.size(); ++i) {
      on_free_port([&](std::uint16_t port) { start_sentinel(i, port); });
    }
    RedisCluster::wait_until("the Sentinels know each other and the replicas", [&] {
      for (auto& one : sentinels) {
        const std::string info = RedisConnection::text(RedisConnection(*one).run({"INFO"}));
        if (info.find("slaves=2,sentinels=3") == info.npos) return false;
      }
      return true;
    });
  }

  std::string role_of(std::size_t i) {
    return RedisConnection::text(RedisConnection(*servers.at(i)).run({"INFO", "replication"}));
  }
  // Returns the number of the server that the Sentinel reports as the master.
  std::string master(std::size_t sentinel = 1) {
    return words_of(*RedisConnection(*sentinels.at(sentinel))
                         .run({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "limits"}));
  }
  std::string url(std::size_t first = 0, std::size_t count = 3) const {
    std::string out = "redis+sentinel://";
    for (std::size_t i = 0; i < count; ++i) {
      out.append(i == 0 ? "" : ",")
          .append("127.0.0.1:" + std::to_string(sentinel_ports[first + i]));
    }
    return out + "/limits";
  }

  std::array<std::unique_ptr<RedisServer>, 3> servers;  // the first is the master
  std::array<std::unique_ptr<RedisServer>, 3> sentinels;
  std::array<std::uint16_t, 3> ports = {};
  std::array<std::uint16_t, 3> sentinel_ports = {};

 private:
  void start_server(std::size_t i, std::uint16_t port) {
    std::vector<std::string> words = {"--port",    std::to_string(port),         "--bind",
                                      "127.0.0.1", "--repl-diskless-sync-delay", "0"};
    if (i > 0) {
      words.insert(words.end(), {"--replicaof", "127.0.0.1 " + std::to_string(ports[0])});
    }
    servers[i] = std::make_unique<RedisServer>(std::move(words));
    ports[i] = port;
  }
  void start_sentinel(std::size_t i, std::uint16_t port) {
    // A Sentinel stores its state in its file.
    const std::string file = servers[0]->folder() + "/sentinel-" + std::to_string(port) + ".conf";
    std::ofstream(file) << "bind 127.0.0.1\n"
                        << "sentinel monitor limits 127.0.0.1 " << ports[0] << " 2\n"
                        << "sentinel down-after-milliseconds limits 700\n"
                        << "sentinel failover-timeout limits 5000\n";
    sentinels[i] = std::make_unique<RedisServer>(
        std::vector<std::string>{"--port", std::to_string(port), "--sentinel"}, file);
    sentinel_ports[i] = port;
  }
};

class RedisSentinel : public ::testing::Test {
 protected:
  sluice::RedisOptions options_of(const std::string& url) {
    sluice::RedisOptions options;
    options.url = url;
    options.deadline = 500ms;
    return options;
  }
  static bool says_master(const std::string& info) {
    return info.find("role:master") != std::string::npos;
  }
  Watched watched;
};

TEST_F(RedisSentinel, NamesTheMasterAndAnotherOneAfterItIsKilled) {
  for (const int protocol : {2, 3}) {
    auto options = options_of(watched.url());
    options.protocol = protocol;
    Probe probe(options);
    EXPECT_TRUE(says_master(probe.ask({"INFO", "replication"})));
  }
  Probe probe(options_of(watched.url()));
  EXPECT_EQ(probe.ask({"SET", "key", "1"}), "OK");
  watched.servers[0]->kill_now();
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_TRUE(probe.run_until([&] { return probe.saw("topology_changed"); }));
  ASSERT_TRUE(probe.works_again({"SET", "key", "2"}));
  RecordProperty("ms", static_cast<int>((std::chrono::steady_clock::now() - killed) / 1ms));
  EXPECT_TRUE(says_master(probe.ask({"INFO", "replication"})));
  EXPECT_EQ(probe.client->stats().connected, 1u);
}

TEST_F(RedisSentinel, MovesTheMasterWhileTheOldOneIsPaused) {
  Probe probe(options_of(watched.url()));
  ASSERT_TRUE(probe.works_again({"SET", "key", "1"}));
  watched.servers[0]->pause();
  ASSERT_TRUE(probe.run_until([&] { return probe.saw("topology_changed"); }));
  ASSERT_TRUE(probe.works_again({"SET", "key", "2"}));
  watched.servers[0]->resume();  // acts as a master until the Sentinels demote it
  EXPECT_TRUE(probe.works_again({"SET", "key", "3"}));
  EXPECT_TRUE(says_master(probe.ask({"INFO", "replication"})));
}

TEST_F(RedisSentinel, FailsOverOnDemandAndTheClientFollows) {
  Probe probe(options_of(watched.url()));
  ASSERT_TRUE(probe.works_again({"SET", "key", "1"}));
  const std::string before = watched.master();
  RedisConnection(*watched.sentinels[2]).run({"SENTINEL", "FAILOVER", "limits"});
  ASSERT_TRUE(probe.run_until([&] { return probe.saw("topology_changed"); }));
  ASSERT_TRUE(probe.works_again({"SET", "key", "2"}));
  EXPECT_NE(watched.master(2), before);
}

TEST_F(RedisSentinel, ThatIsKilledOrPausedIsReplacedByAnother) {
  watched.sentinels[0]->kill_now();
  watched.sentinels[1]->pause();
  auto options = options_of(watched.url());
  options.connect_timeout = 200ms;
  Probe probe(options);
  EXPECT_TRUE(probe.works_again({"SET", "key", "1"}));
  watched.sentinels[1]->resume();
}

TEST_F(RedisSentinel, NamesOtherSentinelsToTheClient) {
  Probe probe(options_of(watched.url(0, 1)));
  ASSERT_TRUE(probe.works_again({"SET", "key", "1"}));
  watched.sentinels[0]->kill_now();
  RedisConnection(*watched.sentinels[2]).run({"SENTINEL", "FAILOVER", "limits"});
  ASSERT_TRUE(probe.run_until([&] { return probe.saw("topology_changed"); }));
  EXPECT_TRUE(probe.works_again({"SET", "key", "2"}));
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
  options.deadline = 2s;
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
