#pragma once

#include <optional>
#include <span>

#include "sluice/store.h"

namespace sluice {

// A store that answers later, for programs whose threads must not sleep. RedisStore is one, with a
// thread of its own; AsyncRedisStore is one on an event loop of the program.
//
// Thread-safety: as the store says. Ownership: borrows all arguments of async_apply(), also the
// bytes of keys and tags, until it calls done(). Deadline: every request ends at the store's
// deadline at the latest (RedisOptions::deadline). A request cannot be taken back, because the
// server may have counted it: if its caller is no longer interested, it keeps the arguments until
// done(). AsyncLimiter (sluice/asio.h) does that, copies keys, and can be cancelled.
class AsyncStore {
 public:
  // Receives the answer to one request.
  //
  // Ownership: the caller's; it must not move before done().
  class Completion {
   public:
    // Called exactly once, perhaps before async_apply() returns, in the thread that the store
    // names. The decisions on the charges are in `each`. It may destroy the completion and start
    // other requests, and must not block.
    virtual void done(const Decision& decision) noexcept = 0;

   protected:
    ~Completion() = default;
  };

  virtual ~AsyncStore() = default;

  // Decides as Store::apply() does, and then calls `completion.done()`.
  virtual void async_apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each,
                           Completion& completion) noexcept = 0;
};

}  // namespace sluice
