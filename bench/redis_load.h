#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/pipeline.h"

namespace sluice::bench {

inline constexpr std::size_t kDepth = 16;  // commands per write, like redis-benchmark -P

// Appends a command in RESP.
class RespCommand {
 public:
  RespCommand& add(std::string_view element);
  std::string text() const;

 private:
  std::size_t elements_ = 0;
  std::string body_;
};

// A connection whose caller waits for each reply.
class RedisLink {
 public:
  // Exits if there is no server.
  explicit RedisLink(const std::string& socket);
  ~RedisLink();
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  // Returns the integer or text of the reply. Exits at an error.
  std::string ask(const std::vector<std::string>& words);
  std::string load_script(const std::string& text) { return ask({"SCRIPT", "LOAD", text}); }

 private:
  int socket_;
};

// Several connections in one thread. Each sends 16 commands in one write when it has the 16 replies
// to the previous ones.
class RedisLoad {
 public:
  // Appends the commands of the i-th operation to `out`: `commands_per_operation` of them.
  using Writer = std::function<void(std::size_t operation, std::string& out)>;
  // Checks each reply. If it returns false, the program prints the reply and exits.
  using Reader = std::function<bool(const redis::Reply& reply)>;

  RedisLoad(const std::string& socket, Writer write, Reader read,
            std::size_t commands_per_operation = 1, std::size_t connections = 8);
  ~RedisLoad();
  RedisLoad(const RedisLoad&) = delete;
  RedisLoad& operator=(const RedisLoad&) = delete;

  // Runs these operations and waits for the last reply.
  void operator()(std::size_t first, std::size_t count);

 private:
  struct Connection {
    int socket = -1;
    redis::ReplyReader replies = {};
    std::size_t awaited = 0;  // replies
  };
  void send(Connection& connection);
  void take_replies(Connection& connection);

  Writer write_;
  Reader read_;
  std::size_t commands_per_operation_;
  std::vector<Connection> connections_;
  std::string buffer_;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
  int poll_ = -1;
};

}  // namespace sluice::bench
