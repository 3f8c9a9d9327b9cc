#pragma once

#include <memory>
#include <string>

#include "sluice/redis_store.h"
#include "stores/redis/client/command.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

struct Target;  // target.h

// The connections to Redis of one event loop: standalone, through Sentinels, or to a cluster.
//
// Thread-safety: the loop's thread only, except for stats(). Ownership: borrows the observer and
// the commands under way. The destructor ends these with kUnavailable or kLost. A client connects
// when it is made, and again whenever it must.
class Client {
 public:
  virtual ~Client() = default;

  // Sends the command in one write with all others of this turn of the loop. It ends by the
  // deadline of the options, counted from now, with or without its answer.
  virtual void submit(Command& command) noexcept = 0;

  // Whether a command would be sent now. `why`: the last failure, as text.
  virtual bool ready() const noexcept = 0;
  virtual std::string why() const = 0;

  // connected, connects, errors, timeouts, scripts_sent, redirects, pending; from any thread.
  virtual RedisStoreStats stats() const noexcept = 0;
};

// A client of one server, of a master that Sentinels watch, or of a cluster, as the target says.
std::unique_ptr<Client> make_client(boost::asio::io_context& loop,
                                    std::shared_ptr<const Target> target, StoreObserver* observer);

}  // namespace sluice::redis
