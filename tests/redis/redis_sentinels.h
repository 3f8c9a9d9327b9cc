#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/redis/client_probe.h"
#include "tests/redis/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice_redis {

// One master, two replicas, and three Sentinels that watch them, on free ports of 127.0.0.1. Two
// Sentinels make a replica the master if the master does not answer for `down_after_ms`. The
// servers end with this object, and with this process.
class Watched {
 public:
  explicit Watched(int down_after_ms) : down_after_ms_(down_after_ms) {
    for (std::size_t i = 0; i < servers.size(); ++i) {
      on_free_port([&](std::uint16_t port) { start_server(i, port); });
    }
    sluice::testing::wait_until("the replicas are in step", [&] {
      return role_of(1).find("master_link_status:up") != std::string::npos &&
             role_of(2).find("master_link_status:up") != std::string::npos;
    });
    for (std::size_t i = 0; i < sentinels.size(); ++i) {
      on_free_port([&](std::uint16_t port) { start_sentinel(i, port); });
    }
    sluice::testing::wait_until("the Sentinels know each other and the replicas", [&] {
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
                        << "sentinel down-after-milliseconds limits " << down_after_ms_ << "\n"
                        << "sentinel failover-timeout limits 5000\n";
    sentinels[i] = std::make_unique<RedisServer>(
        std::vector<std::string>{"--port", std::to_string(port), "--sentinel"}, file);
    sentinel_ports[i] = port;
  }

  const int down_after_ms_;
};

}  // namespace sluice_redis
