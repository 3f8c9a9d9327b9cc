#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
  // Throws Failed: wrong options, or why the server is not available within two seconds.
  explicit RedisSession(RedisOptions options);
  ~RedisSession();

  using Fill = std::function<void(redis::Command&)>;
  // `reply` of the command of that number; it is valid for the call.
  using Take = std::function<void(std::size_t number, const redis::Reply& reply)>;
  // Sends commands in one write and waits for all replies. Throws Failed: the first failure. An
  // error reply of the server is one too, unless `may_refuse`: then it is skipped.
  void ask(const std::vector<Fill>& commands, const Take& take, bool may_refuse = false);
  void ask(const Fill& command, const std::function<void(const redis::Reply&)>& take);

  // Returns the URL without passwords.
  const std::string& shown() const noexcept;
  const redis::Target& target() const noexcept { return *target_; }

 private:
  class Step;

  std::shared_ptr<const redis::Target> target_;
  std::unique_ptr<boost::asio::io_context> loop_;
  std::unique_ptr<redis::Client> client_;
};

}  // namespace sluice::cli
