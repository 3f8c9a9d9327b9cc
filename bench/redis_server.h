#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice::bench {

// A redis-server on a Unix socket in a new folder, pinned to one processor, without persistence. It
// stops with this object, and if this process is killed.
class RedisServer {
 public:
  // `options` are more arguments of redis-server. Exits with status 1 if there is no redis-server
  // or only one processor.
  explicit RedisServer(const std::vector<std::string>& options = {}, std::size_t cpu = 0);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::string& socket() const noexcept { return socket_; }
  std::string url() const { return "redis+unix://" + socket_; }
  // Returns the processor time of the server so far in nanoseconds.
  double cpu_ns() const;

  void signal(int number) const;  // SIGSTOP, SIGCONT, SIGKILL

 private:
  std::filesystem::path folder_;
  std::string socket_;
  pid_t pid_ = 0;
};

// Returns a descriptor that is connected to this Unix socket, or -1.
int connected_to(const std::string& socket) noexcept;

}  // namespace sluice::bench
