#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/expected.h"
#include "sluice/redis_store.h"
#include "stores/redis/client/client.h"

namespace boost::asio {
class io_context;
}

namespace sluice::cli {

// A connection to Redis whose caller waits for every reply.
//
// Not thread-safe. Never repeats a command that Redis may have carried out.
class RedisSession {
 public:
  // Errors: wrong options, or the reason why the server is not available within `at_most`.
  static Expected<std::unique_ptr<RedisSession>> open(
      RedisOptions options, std::chrono::milliseconds at_most = std::chrono::seconds{2});
  ~RedisSession();

  using Fill = std::function<void(redis::Command&)>;
  // `reply` of the command of that number; it is valid for the call.
  using Take = std::function<void(std::size_t number, const redis::Reply& reply)>;
  // Sends commands in one write and waits for all replies. Errors: the first failure. An error
  // reply of the server goes to `refused`, or is an error if `refused` is empty.
  using Refused = std::function<void(std::size_t number, std::string_view error)>;
  Status ask(const std::vector<Fill>& commands, const Take& take, const Refused& refused = {});
  Status ask(const Fill& command, const std::function<void(const redis::Reply&)>& take);

  // Returns the URL without passwords.
  const std::string& shown() const noexcept;
  const redis::Target& target() const noexcept { return *target_; }

 private:
  class Step;

  explicit RedisSession(std::shared_ptr<const redis::Target> target);
  Status connect(std::chrono::milliseconds at_most);

  std::shared_ptr<const redis::Target> target_;
  std::unique_ptr<boost::asio::io_context> loop_;
  std::unique_ptr<redis::Client> client_;
};

}  // namespace sluice::cli
