#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sluice/store.h"
#include "stores/redis/store/operation.h"

namespace sluice::redis {

class Calls;

// One request of a store, from prepare() to done(). The store reuses it for later requests.
class Call final : public Operation::Owner {
 public:
  Call(Calls& home, std::unique_ptr<Operation> operation)
      : home_(home), operation_(std::move(operation)) {}

  // Returns false if there is nothing to start; then end() answers.
  bool prepare(const Operation::Request& request, AsyncStore::Completion& completion) noexcept {
    completion_ = &completion;
    return operation_->prepare(request);
  }
  void start(Client& client) noexcept { operation_->start(client, *this); }
  // Returns the call to its home, then answers.
  void end() noexcept;
  void finished(Operation&) noexcept override { end(); }

  Call* next = nullptr;  // in a CallQueue

 private:
  Calls& home_;
  std::unique_ptr<Operation> operation_;
  AsyncStore::Completion* completion_ = nullptr;
};

// A queue from many threads to one.
class CallQueue {
 public:
  // Returns whether it was empty, so that the reader must be woken.
  bool push(Call& call) noexcept {
    Call* head = newest_.load(std::memory_order_relaxed);
    do {
      call.next = head;
    } while (!newest_.compare_exchange_weak(head, &call, std::memory_order_release,
                                            std::memory_order_relaxed));
    return head == nullptr;
  }
  // Removes all. Returns the newest, from which `next` leads to the oldest.
  Call* take_newest() noexcept { return newest_.exchange(nullptr, std::memory_order_acquire); }
  // Removes all. Returns the oldest, from which `next` leads to the newest.
  Call* take() noexcept {
    Call* newest = take_newest();
    Call* oldest = nullptr;
    while (newest != nullptr) {
      Call* const next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    return oldest;
  }

 private:
  std::atomic<Call*> newest_{nullptr};
};

// The calls of a store. Any thread may prepare one and return one; returning takes no lock.
class Calls {
 public:
  explicit Calls(const OperationOptions& options) : options_(options) {}

  // Returns a call that is ready to start. Returns null if it was answered at once: the request is
  // kInvalid, or there is no memory.
  Call* prepare(const Operation::Request& request, AsyncStore::Completion& completion) noexcept;
  void put(Call& call) noexcept { returned_.push(call); }

 private:
  Call* get() noexcept;

  const OperationOptions& options_;
  CallQueue returned_;
  std::mutex mutex_;  // protects the members below
  Call* free_ = nullptr;
  std::vector<std::unique_ptr<Call>> all_;
};

}  // namespace sluice::redis

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
