#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"

// The waiting of AsyncLimiter, without Boost.
namespace sluice::detail {

struct WaitLine;

// A request that waits for units. Fill in the first three members; the others are for those who let
// it wait.
struct Waiter {
  enum class State : std::uint8_t {
    kAsks,    // the store decides it, and it is in no queue
    kQueued,  // it waits for its turn to ask, or the store decides it
    kSleeps,  // it has its units, and waits until they are due
    kEnded,
  };

  // What it takes from the counter for which it waits.
  Limit limit;
  std::uint64_t cost = 1;
  Instant deadline = {};

  Decision decision = {};     // when it has ended
  Waiter* next = nullptr;     // the one behind it, or the next one that has ended
  Waiter* before = nullptr;   // the one ahead of it
  WaitLine* line = nullptr;   // its queue; null: none
  bool is_asked_for = false;  // by a question that is under way
  State state = State::kAsks;
  bool is_counted = false;  // among those that wait outside of queues
  bool is_cancelled = false;
  bool gives_back = false;        // what the store has taken, when it has ended
  bool is_fallback = false;       // a failure policy has admitted it: the store has taken nothing
  std::uint8_t charge = 0;        // of several: the one for which it waits
  std::uint32_t place = 0;        // among the sleepers
  Instant turn = Instant::max();  // when it asks the store, or has its units
};

// A request of AsyncLimiter that waits: the base of its operations.
//
// Ownership: the caller's. It must not move or end before ended().
class WaitingRequest : public Waiter {
 public:
  // Copies the key, the tag and the permit. Charges of rules do not wait here.
  WaitingRequest(const Charge& of, Instant until)
      : Waiter{.limit = of.limit, .cost = of.cost, .deadline = until},
        names_(std::string(of.tag).append(of.key)),
        tag_size_(static_cast<std::uint32_t>(of.tag.size())) {
    if (of.permit != nullptr) permit_ = *of.permit;
  }
  virtual ~WaitingRequest() = default;
  WaitingRequest(const WaitingRequest&) = delete;
  WaitingRequest& operator=(const WaitingRequest&) = delete;

  // Called once, in any thread, without a lock. `decision` is the answer, unless the request was
  // cancelled.
  virtual void ended() noexcept = 0;

  std::string_view key() const noexcept { return std::string_view(names_).substr(tag_size_); }
  std::string_view tag() const noexcept { return std::string_view(names_).substr(0, tag_size_); }
  Charge charge() const noexcept {
    return {.key = key(),
            .limit = limit,
            .cost = cost,
            .tag = tag(),
            .permit = permit_ == PermitId() ? nullptr : &permit_};
  }

 private:
  const std::string names_;
  const std::uint32_t tag_size_;
  PermitId permit_;
};

// The requests of an AsyncLimiter that wait. Has no thread and no timer of its own.
//
// Thread-safety: any member from any thread. No lock is held while the store or a request is
// called. Ownership: borrows the stores, the clock and what the alarm refers to until close(), and
// the requests until ended().
class AsyncWaits {
 public:
  // Lets on_time() be called at this instant instead of an earlier one, or later; Instant::max():
  // no more. Called under the lock of AsyncWaits.
  using Alarm = std::function<void(Instant at)>;
  // For a store that answers at once, or for one that answers later; the other one is null. At most
  // `most` requests wait.
  static std::shared_ptr<AsyncWaits> make(Store* store, AsyncStore* async, std::size_t most,
                                          Alarm alarm,
                                          const Clock& clock = SteadyClock::instance());
  virtual ~AsyncWaits() = default;

  // Asks a store that answers at once. Returns whether `said` is the answer; else start() a request
  // with `said`, which is empty if others wait already.
  virtual bool decide(const Charge& charge, Instant deadline,
                      std::optional<Decision>& said) noexcept = 0;
  virtual void start(WaitingRequest& request, const std::optional<Decision>& said) noexcept = 0;
  // Permits of these counters were released: the first that wait for them ask.
  virtual void released(std::span<const Charge> charges) noexcept = 0;
  // Ends the request, and gives back what it has taken. Ends it when the answer arrives if the
  // store is deciding it.
  virtual void cancel(WaitingRequest& request) noexcept = 0;
  virtual void on_time() noexcept = 0;
  // Cancels all requests and operations, except those for which a thread asks a store that answers
  // at once: these end in that thread, during a visit. From then on each request is cancelled at
  // its start.
  virtual void close() noexcept = 0;
  // The number of requests that wait.
  virtual std::size_t waiting() const noexcept = 0;

  // An operation that waits for the answer of the store, and not for units.
  class Operation : public std::enable_shared_from_this<Operation> {
   public:
    virtual ~Operation() = default;
    // Ends it before the answer. Called in any thread, without a lock.
    virtual void cancel() noexcept = 0;

   private:
    friend class AsyncWaits;
    Operation* next_ = nullptr;
    Operation** link_ = nullptr;  // to this one; null: close() does not end it
  };
  // From then on close() cancels the operation, until it is removed: when the answer has come.
  void add(Operation& operation) noexcept;
  void remove(Operation& operation) noexcept;

  // While it lives, a thread that close() does not stop uses the store or the limiter's executor.
  class Visit {
   public:
    explicit Visit(std::shared_ptr<AsyncWaits> waits) noexcept : waits_(std::move(waits)) {
      waits_->visits_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Visit() { waits_->visits_.fetch_sub(1, std::memory_order_release); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    const std::shared_ptr<AsyncWaits> waits_;
  };
  // Waits until no visit is under way that began before close().
  void await_visits() const noexcept {
    while (visits_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  }

 protected:
  void cancel_operations() noexcept;

 private:
  void unlink(Operation& operation) noexcept;

  std::atomic<std::size_t> visits_{0};
  std::mutex operations_mutex_;  // protects the list, and the links of its operations
  Operation* operations_ = nullptr;
};

}  // namespace sluice::detail
