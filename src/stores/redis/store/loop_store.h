#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sluice/store.h"
#include "stores/redis/store/operation.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

// A queue from many threads to one.
class OperationQueue {
 public:
  // Returns whether it was empty, so that the reader must be woken.
  bool push(Operation& operation) noexcept {
    Operation* head = newest_.load(std::memory_order_relaxed);
    do {
      operation.next = head;
    } while (!newest_.compare_exchange_weak(head, &operation, std::memory_order_release,
                                            std::memory_order_relaxed));
    return head == nullptr;
  }
  // Removes all. Returns the newest, from which `next` leads to the oldest.
  Operation* take_newest() noexcept { return newest_.exchange(nullptr, std::memory_order_acquire); }
  // Removes all. Returns the oldest, from which `next` leads to the newest.
  Operation* take() noexcept {
    Operation* newest = take_newest();
    Operation* oldest = nullptr;
    while (newest != nullptr) {
      Operation* const next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    return oldest;
  }

 private:
  std::atomic<Operation*> newest_{nullptr};
};

// The Redis store of one event loop: a client, and the operations, which it reuses. RedisStore,
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
    Operation* const operation = prepare({action, charges, now, each}, completion);
    if (operation != nullptr) start(*operation);
  }
  // The first half of async_apply(), for any thread. Null: the request was answered, because it is
  // kInvalid or there is no memory.
  Operation* prepare(const Operation::Request& request, Completion& completion) noexcept;
  void start(Operation& operation) noexcept {
    operation.start(*client_, [this, &operation] { end(operation); });
  }

  // Ends all requests under way. From then on, requests return kStoreError.
  void close() noexcept;

  // For other commands. It changes with close().
  Client& client() noexcept { return *client_; }
  bool ready() const noexcept { return client_->ready(); }
  std::string why() const { return client_->why(); }
  // From any thread, but not during close().
  RedisStoreStats stats() const noexcept;

 private:
  Operation* get_operation() noexcept;
  // Takes the operation back, then answers. Takes no lock.
  void end(Operation& operation) noexcept;

  const RequestOptions options_;
  std::atomic<std::uint64_t> gave_back_{0};
  OperationQueue returned_;
  std::mutex mutex_;  // protects the two members below
  Operation* free_ = nullptr;
  std::vector<std::unique_ptr<Operation>> operations_;

  std::unique_ptr<Client> open_;
  Client* client_;
};

}  // namespace sluice::redis
