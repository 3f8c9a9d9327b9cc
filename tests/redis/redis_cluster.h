#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/redis/redis_server.h"

namespace sluice_redis {

// A Redis Cluster for one test: masters, each with the requested number of replicas, on free ports
// of 127.0.0.1, created by `redis-cli --cluster create`. A server that does not answer is not
// treated as failed while a test runs, unless an option sets another --cluster-node-timeout. The
// servers end with this object, and with this process. Throws std::runtime_error if the cluster
// cannot be started.
class RedisCluster {
 public:
  explicit RedisCluster(std::size_t masters = 3, std::size_t replicas_of_each = 0,
                        const std::vector<std::string>& options = {}) {
    for (std::size_t i = 0; i < masters * (1 + replicas_of_each); ++i) add_node(options);
    std::string words = "--cluster create";
    for (std::size_t i = 0; i < size(); ++i) words += " 127.0.0.1:" + std::to_string(port(i));
    words += " --cluster-replicas " + std::to_string(replicas_of_each) + " --cluster-yes";
    cli(words);
    sluice::testing::wait_until("the cluster is up", [&] { return is_up(masters); });
  }

  // Starts another server that is not yet part of the cluster. Returns its number.
  std::size_t add_node(const std::vector<std::string>& options = {}) {
    for (int attempt = 0;; ++attempt) {
      const std::uint16_t port = free_port();
      std::vector<std::string> words = {"--port",
                                        std::to_string(port),
                                        "--bind",
                                        "127.0.0.1",
                                        "--cluster-port",
                                        std::to_string(free_port()),
                                        "--cluster-enabled",
                                        "yes",
                                        "--cluster-node-timeout",
                                        "600000",
                                        "--repl-diskless-sync-delay",
                                        "0"};
      words.insert(words.end(), options.begin(), options.end());
      try {
        nodes_.push_back({std::make_unique<RedisServer>(std::move(words)), port});
        return size() - 1;
      } catch (const std::runtime_error&) {
        if (attempt == 4) throw;  // otherwise another process has taken the port
      }
    }
  }

  std::size_t size() const noexcept { return nodes_.size(); }
  RedisServer& node(std::size_t i) noexcept { return *nodes_.at(i).server; }
  std::uint16_t port(std::size_t i) const noexcept { return nodes_.at(i).port; }
  // Returns a URL with the addresses of all servers.
  std::string url() const {
    std::string url = "redis+cluster://";
    for (const Node& node : nodes_) url += "127.0.0.1:" + std::to_string(node.port) + ",";
    url.pop_back();
    return url;
  }

  Reply run(std::size_t i, std::initializer_list<std::string_view> words) {
    return RedisConnection(node(i)).run(words);
  }
  std::string text(std::size_t i, std::initializer_list<std::string_view> words) {
    return RedisConnection::text(run(i, words));
  }
  std::string id(std::size_t i) { return text(i, {"CLUSTER", "MYID"}); }
  bool is_master(std::size_t i) {
    return text(i, {"INFO", "replication"}).find("role:master") != std::string::npos;
  }
  // Returns the number of the server that serves the slot, according to server `asked`.
  std::size_t master_of(int slot, std::size_t asked = 0) {
    const Reply ranges = run(asked, {"CLUSTER", "SLOTS"});
    for (const auto& range : *ranges) {
      if (range[0].integer > slot || range[1].integer < slot) continue;
      return number_of(static_cast<std::uint16_t>(range[2][1].integer));
    }
    throw std::runtime_error("nobody serves slot " + std::to_string(slot));
  }

  // The steps that move a slot to another server: begin, move its keys, end.
  void begin_move(int slot, std::size_t from, std::size_t to) {
    const std::string text = std::to_string(slot);
    run(to, {"CLUSTER", "SETSLOT", text, "IMPORTING", id(from)});
    run(from, {"CLUSTER", "SETSLOT", text, "MIGRATING", id(to)});
  }
  void move_key(std::string_view key, std::size_t from, std::size_t to) {
    const Reply reply =
        run(from, {"MIGRATE", "127.0.0.1", std::to_string(port(to)), key, "0", "5000"});
    if (reply->type == Reply::kError) throw std::runtime_error(RedisConnection::text(reply));
  }
  void end_move(int slot, std::size_t from, std::size_t to) {
    const std::string owner = id(to);
    run(to, {"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", owner});
    run(from, {"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", owner});
  }

  // Runs `redis-cli` with these arguments. Returns its output.
  static std::string cli(const std::string& words) {
    std::FILE* const out = popen(("redis-cli " + words + " 2>&1 </dev/null").c_str(), "r");
    if (out == nullptr) throw std::runtime_error("cannot start redis-cli");
    std::string text;
    std::array<char, 4096> buffer;
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), out)) {
      text.append(buffer.data(), n);
    }
    if (pclose(out) != 0) throw std::runtime_error("redis-cli " + words + ": " + text);
    return text;
  }

 private:
  struct Node {
    std::unique_ptr<RedisServer> server;
    std::uint16_t port;
  };

  // Returns a port that is free now. Returns no port twice.
  std::uint16_t free_port() {
    for (;;) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof(address);
      auto* const generic = reinterpret_cast<sockaddr*>(&address);
      const bool is_bound = ::bind(fd, generic, size) == 0 && getsockname(fd, generic, &size) == 0;
      ::close(fd);
      if (!is_bound) throw std::runtime_error("there is no free port");
      const std::uint16_t port = ntohs(address.sin_port);
      if (ports_.insert(port).second) return port;
    }
  }

  std::size_t number_of(std::uint16_t port) const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (nodes_[i].port == port) return i;
    }
    throw std::runtime_error("no server listens on " + std::to_string(port));
  }

  // Returns whether all servers see all slots served and each replica has its master's data.
  bool is_up(std::size_t masters) {
    std::size_t seen = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      if (text(i, {"CLUSTER", "INFO"}).find("cluster_state:ok") == std::string::npos) return false;
      const std::string role = text(i, {"INFO", "replication"});
      if (role.find("role:master") != std::string::npos) {
        ++seen;
      } else if (role.find("master_link_status:up") == std::string::npos) {
        return false;
      }
      const Reply ranges = run(i, {"CLUSTER", "SLOTS"});
      for (const auto& range : *ranges) {
        if (range.count != 2 + size() / masters) return false;
      }
    }
    return seen == masters;
  }

  std::vector<Node> nodes_;
  std::set<std::uint16_t> ports_;
};

}  // namespace sluice_redis
