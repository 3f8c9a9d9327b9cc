#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "sluice/async_store.h"
#include "stores/redis/store/calls.h"
#include "stores/redis/store/operation.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

// The Redis store of one event loop: a client, and the calls that are under way. RedisStore,
// AsyncRedisStore and the server's stores are made of it.
//
// Thread-safety: the loop's thread only, except for prepare() and stats(). Ownership: borrows the
// loop and the observer.
class LoopStore final : public AsyncStore {
 public:
  LoopStore(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
            StoreObserver* observer);
  // As close().
  ~LoopStore() override { close(); }
  LoopStore(const LoopStore&) = delete;
  LoopStore& operator=(const LoopStore&) = delete;

  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override {
    Call* const call = prepare({action, charges, now, each}, completion);
    if (call != nullptr) start(*call);
  }
  // The first half of async_apply(), for any thread. Null: the request was answered.
  Call* prepare(const Operation::Request& request, Completion& completion) noexcept {
    return calls_.prepare(request, completion);
  }
  void start(Call& call) noexcept { call.start(*client_); }

  // Ends all requests under way. From then on, requests return kStoreError.
  void close() noexcept;

  // For other commands. It changes with close().
  Client& client() noexcept { return *client_; }
  bool ready() const noexcept { return client_->ready(); }
  std::string why() const { return client_->why(); }
  // From any thread, but not during close().
  RedisStoreStats stats() const noexcept;

 private:
  OperationOptions options_;
  std::atomic<std::uint64_t> gave_back_{0};
  Calls calls_;
  std::unique_ptr<Client> open_;
  Client* client_;
};

}  // namespace sluice::redis
