#pragma once

#include <memory>
#include <string>

#include "sluice/redis_store.h"
#include "sluice/store.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {
class LoopStore;
}

namespace sluice {

// The store of RedisStore on an event loop of Boost.Asio that the program runs, without a thread of
// its own. Requests of one turn of the loop leave in one write.
//
// Thread-safety: one thread, which runs the loop; stats() from any thread. done() is called in that
// thread. Ownership: borrows the loop and the observer. The loop must outlive the store, and must
// not run in another thread while the store is destroyed. Cost: a round trip, during which the loop
// continues; keeps the buffers of as many requests as were under way at the same time. Failures,
// deadlines and the versions of Redis are those of RedisStore. The destructor ends the requests
// that are under way with kStoreError or kStoreTimeout.
class AsyncRedisStore final : public AsyncStore {
 public:
  // Does not wait for the server: the store connects when the loop runs. Errors: as
  // RedisStore::open().
  static Expected<std::unique_ptr<AsyncRedisStore>> open(boost::asio::io_context& loop,
                                                         const RedisOptions& options,
                                                         StoreObserver* observer = nullptr);
  ~AsyncRedisStore() override;
  AsyncRedisStore(const AsyncRedisStore&) = delete;
  AsyncRedisStore& operator=(const AsyncRedisStore&) = delete;

  // See AsyncStore.
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override;

  // Returns whether a request would be sent now.
  bool ready() const noexcept;
  // Returns the last failure as text, empty if there was none.
  std::string why() const;
  // Returns the counts now.
  RedisStoreStats stats() const;

 private:
  explicit AsyncRedisStore(std::unique_ptr<redis::LoopStore> store);
  std::unique_ptr<redis::LoopStore> store_;
};

}  // namespace sluice
