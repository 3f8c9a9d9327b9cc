#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sluice/async_store.h"
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
