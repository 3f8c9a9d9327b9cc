#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "sluice/async_store.h"
#include "sluice/clock.h"
#include "sluice/detail/wait_queue.h"
#include "sluice/detail/wake_heap.h"
#include "sluice/store.h"

namespace sluice::detail {

class AsyncWaits;

// A request that waits for units: the base of those of AsyncLimiter.
//
// Ownership: the caller's. It must not move or end before ended().
class WaitingRequest : public WaitQueue::Waiter, public WakeHeap::Sleeper {
 public:
  WaitingRequest(std::string_view named, const Limit& of, std::uint64_t units, Instant until)
      : Waiter{.limit = of, .cost = units, .deadline = until}, key(named) {}
  virtual ~WaitingRequest() = default;
  WaitingRequest(const WaitingRequest&) = delete;
  WaitingRequest& operator=(const WaitingRequest&) = delete;

  // Called once, in any thread, without a lock. `decision` is the answer, unless the request was
  // cancelled.
  virtual void ended() noexcept = 0;

  Charge charge() const noexcept { return {.key = key, .limit = limit, .cost = cost}; }

  const std::string key;
  bool is_cancelled = false;

 private:
  friend class AsyncWaits;
  enum class State : std::uint8_t { kAsking, kQueued, kSleeping, kEnded };

  State state_ = State::kAsking;
  Instant turn_ = {};  // when a request that sleeps ends
};

// The requests of an AsyncLimiter that wait: for a reservation of a bucket to come due, or in a
// WaitQueue. Has no thread and no timer of its own.
//
// Thread-safety: any member from any thread. No lock is held while the store or a request is
// called. Ownership: borrows the stores, the clock and the alarm until close(), and the requests
// until ended().
class AsyncWaits : public std::enable_shared_from_this<AsyncWaits> {
 public:
  // Calls on_time() at the instant that was set last, or later.
  class Alarm {
   public:
    // Called under the lock of AsyncWaits. Instant::max(): no alarm.
    virtual void set(Instant at) noexcept = 0;

   protected:
    ~Alarm() = default;
  };
  struct Options {
    Store* store = nullptr;       // one that answers at once, or
    AsyncStore* async = nullptr;  // one that answers later
    std::size_t most = 65'536;    // requests that wait
    const Clock* clock = &SteadyClock::instance();
  };
  AsyncWaits(const Options& options, Alarm& alarm);
  ~AsyncWaits();

  enum class Verdict : std::uint8_t {
    kEnded,   // the decision is the answer
    kWaits,   // start() a request with the decision
    kQueues,  // start() a request without one: others wait already
  };
  // Asks a store that answers at once.
  Verdict decide(const Charge& charge, Instant deadline, Decision& decision) noexcept;
  // `said`: the decision of decide(), if it has made one.
  void start(WaitingRequest& request, const Decision* said) noexcept;
  // Ends the request, and gives back what it has taken. Ends it when the answer arrives if the
  // store is deciding it.
  void cancel(WaitingRequest& request) noexcept;
  void on_time() noexcept;
  // Cancels all requests. From then on each request is cancelled at its start.
  void close() noexcept;

  std::size_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

  // While it lives, a thread of the store ends operations of the limiter.
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
  // Waits until no visit is under way that posted a handler before the call.
  void await_visits() const noexcept {
    while (visits_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  }

 private:
  class Question;
  class Refund;
  class Ended;
  using Lock = std::unique_lock<std::mutex>;
  using State = WaitingRequest::State;

  // Requests by the counters for which they wait.
  struct ByCounter {
    using is_transparent = void;
    static std::tuple<Algorithm, std::string_view> name(const Charge& charge) noexcept {
      return {charge.limit.algorithm(), charge.key};
    }
    static std::tuple<Algorithm, std::string_view> name(const WaitingRequest* request) noexcept {
      return {request->limit.algorithm(), request->key};
    }
    bool operator()(const auto& a, const auto& b) const noexcept { return name(a) < name(b); }
  };

  static bool is_reservable(const Limit& limit) noexcept {
    return limit.state_kind() == StateKind::kBucket;
  }
  Verdict decide_bucket(const Charge& charge, Instant deadline, Decision& decision) noexcept;
  static Decision too_many(const Limit& limit) noexcept;
  Action reservation(Instant deadline) const noexcept;
  bool make_room() noexcept;
  bool has_sleepers(const Charge& charge) noexcept;
  void sleep(WaitingRequest& request, const Decision& said, Ended& ended) noexcept;
  void follow(WaitingRequest& last, WaitingRequest& request) noexcept;
  void wake(WaitingRequest& request) noexcept;
  void queue(WaitingRequest& request, const Decision* said, Lock& lock, Ended& ended) noexcept;
  void ask_for(WaitQueue::Waiter* first, const Decision* said, Lock& lock, Ended& ended) noexcept;
  void ask_later(WaitingRequest& request, Lock& lock, Ended& ended) noexcept;
  bool take_answer(Question& question) noexcept;
  WaitingRequest* take_answer(WaitQueue::Waiter& first, const Decision& said,
                              Ended& ended) noexcept;
  void drop_cancelled(WaitQueue::Next& next, Instant now, Ended& ended) noexcept;
  WaitingRequest* schedule(const WaitQueue::Next& next, Instant now) noexcept;
  void finish(Lock& lock, Ended& ended) noexcept;
  void refund(const WaitingRequest& request) noexcept;

  void set_alarm() noexcept;

  const Options options_;
  const Clock& clock_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::size_t> visits_{0};

  std::mutex mutex_;  // protects the members below
  Alarm* alarm_;      // null after close()
  Instant alarm_at_ = Instant::max();
  WaitQueue queue_;
  std::size_t reserved_ = 0;   // requests that are not in the queue
  std::size_t cancelled_ = 0;  // requests that were cancelled while the store decides
  WakeHeap sleepers_;          // requests whose reservation comes due, and those that ask next
  // The last request of each counter whose requests sleep. They are linked in order of arrival, and
  // only the first of them is in `sleepers_`.
  std::set<WaitingRequest*, ByCounter> lines_;
};

}  // namespace sluice::detail
