#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/expected.h"
#include "sluice/redis_store.h"
#include "stores/redis/client/client.h"

namespace sluice::cli {

// A conversation with Redis in which the program waits for every answer.
//
// Not thread-safe. Never repeats a command that may have been done.
class RedisSession {
 public:
  // Errors: options that are wrong, or why the server cannot be asked within `at_most`.
  static Expected<std::unique_ptr<RedisSession>> open(
      RedisOptions options, std::chrono::milliseconds at_most = std::chrono::seconds{2});
  ~RedisSession();

  using Fill = std::function<void(redis::Command&)>;
  // `reply` of the command of that number; it is valid for the call.
  using Take = std::function<void(std::size_t number, const redisReply& reply)>;
  // Sends `count` commands in one write, each as `fill` says, and waits for all answers. Errors:
  // the first thing that went wrong; what the server answers with an error goes to `refused`, or is
  // an error where that is empty.
  using Refused = std::function<void(std::size_t number, std::string_view error)>;
  Expected<bool> ask(const std::vector<Fill>& commands, const Take& take,
                     const Refused& refused = {});
  Expected<bool> ask(const Fill& command, const std::function<void(const redisReply&)>& take);

  // The URL without passwords.
  const std::string& shown() const noexcept;
  const redis::Target& target() const noexcept { return *target_; }

 private:
  class Step;

  explicit RedisSession(std::shared_ptr<const redis::Target> target);
  Expected<bool> connect(std::chrono::milliseconds at_most);

  std::shared_ptr<const redis::Target> target_;
  boost::asio::io_context loop_{1};
  std::unique_ptr<redis::Client> client_;
};

}  // namespace sluice::cli
