#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sluice/clock.h"
#include "sluice/redis_store.h"
#include "sluice/store.h"
#include "stores/redis/client/client.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

// What all operations of one store have in common. Outlives them.
struct OperationOptions {
  std::string prefix;
  bool by_slot = false;  // a cluster
  bool scripting = true;
  bool uses_module = false;                         // where the server has it; instead of scripts
  std::uint64_t explicit_expiry_ms = 0;             // RedisOptions::explicit_timestamp_expiry
  std::atomic<std::uint64_t>* gave_back = nullptr;  // counts requests that were undone
  // The time of requests without scripts; with scripts it is the server's.
  const Clock* clock = &SystemClock::instance();
};
OperationOptions operation_options(const Target& target);

// One request from beginning to end: what to send, what the answers mean, what must be given back.
// It neither waits nor locks: call prepare() in any thread, then start() in the client's thread,
// which calls finished(), perhaps before start() returns.
//
// Serves one request after the other, and keeps its buffers. Ownership: borrows its arguments until
// finished().
class Operation {
 public:
  struct Request {
    Action action = Verb::kTake;
    std::span<const Charge> charges;
    std::optional<Instant> now;
    std::span<Decision> each;  // one for every charge
  };
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void finished(Operation& operation) noexcept = 0;
  };

  virtual ~Operation() = default;

  // False: there is nothing to start; decision() has the reason.
  virtual bool prepare(const Request& request) noexcept = 0;
  virtual void start(Client& client, Owner& owner) noexcept = 0;

  const Decision& decision() const noexcept { return decision_; }

 protected:
  // Answers the request and each charge with a reason of this process.
  void refuse(Reason reason, std::span<Decision> each) noexcept;

  Decision decision_;
};

// With scripts or without them, as the options say.
std::unique_ptr<Operation> make_operation(const OperationOptions& options);

// A client of one server, of a master that Sentinels watch, or of a cluster, as the target says.
// `clock`: see make_asio_event_loop().
std::unique_ptr<Client> make_client(boost::asio::io_context& loop,
                                    std::shared_ptr<const Target> target, StoreObserver* observer,
                                    const Clock& clock = SteadyClock::instance());

}  // namespace sluice::redis
