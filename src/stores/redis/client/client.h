#pragma once

#include <string>

#include "sluice/redis_store.h"
#include "stores/redis/client/command.h"

namespace sluice::redis {

struct Target;  // target.h

// The connections to Redis of one event loop: standalone, through Sentinels, or to a cluster.
//
// Thread-safety: the loop's thread only, but for stats(). Ownership: borrows loop and observer; the
// commands under way are their owners'. Destroying it ends them all with kUnavailable or kLost. It
// connects by itself when it is made, and again whenever it has to.
class Client {
 public:
  virtual ~Client() = default;

  // Sends the command with all others of this turn of the loop in one write. It ends by the
  // deadline of the options, counted from now: with its answer or without.
  virtual void submit(Command& command) noexcept = 0;

  // Whether a command would be sent now. `why`: the last thing that went wrong, in words.
  virtual bool ready() const noexcept = 0;
  virtual std::string why() const = 0;

  // connected, connects, errors, timeouts, scripts_sent, redirects, pending; from any thread.
  virtual RedisStoreStats stats() const noexcept = 0;
};

}  // namespace sluice::redis
