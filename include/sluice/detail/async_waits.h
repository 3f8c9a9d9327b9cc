#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/store.h"

// The waiting of AsyncLimiter, without Boost: sleepers, the queue of a counter, and both together.
namespace sluice::detail {

// Sleepers by the instant at which they wake, the earliest first. A binary heap in which each
// sleeper knows its place, so that it can be removed.
//
// Thread-safety: one thread at a time. Ownership: borrows the sleepers. Cost: 16 bytes a sleeper;
// O(log n), and O(1) for the first.
class WakeHeap {
 public:
  // Base of what sleeps.
  class Sleeper {
   public:
    // Whether it is in a heap.
    bool is_asleep() const noexcept { return place_ != 0; }

   private:
    friend class WakeHeap;
    std::uint32_t place_ = 0;  // from 1; 0: in no heap
  };

  // Makes room, so that add() cannot fail while there are fewer than `count` sleepers.
  bool reserve(std::size_t count) noexcept try {
    if (heap_.capacity() < count) heap_.reserve(count + count / 2);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  void add(Sleeper& sleeper, Instant at) noexcept {
    heap_.push_back({at, &sleeper});
    rise(heap_.size() - 1);
  }
  // Does nothing if the sleeper is in no heap.
  void remove(Sleeper& sleeper) noexcept {
    if (!sleeper.is_asleep()) return;
    const std::size_t place = std::exchange(sleeper.place_, 0) - 1;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    put(place, last);
    rise(place);
    sink(last.sleeper->place_ - 1);
  }

  bool empty() const noexcept { return heap_.empty(); }
  // The first sleeper, and when it wakes. There must be one.
  Sleeper& first() const noexcept { return *heap_.front().sleeper; }
  Instant at() const noexcept { return heap_.front().at; }

 private:
  struct Entry {
    Instant at;
    Sleeper* sleeper;
  };
  void put(std::size_t place, const Entry& entry) noexcept {
    heap_[place] = entry;
    entry.sleeper->place_ = static_cast<std::uint32_t>(place + 1);
  }
  void rise(std::size_t place) noexcept {
    const Entry entry = heap_[place];
    for (; place > 0 && entry.at < heap_[(place - 1) / 2].at; place = (place - 1) / 2) {
      put(place, heap_[(place - 1) / 2]);
    }
    put(place, entry);
  }
  void sink(std::size_t place) noexcept {
    const Entry entry = heap_[place];
    for (;;) {
      std::size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) ++child;
      if (entry.at <= heap_[child].at) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }

  std::vector<Entry> heap_;
};

// The callers of this process that wait for units of counters, in order of arrival at each counter.
// For algorithms that cannot be reserved ahead. Has no I/O, clock, timer or lock of its own.
//
// Only the first waiter of a counter asks the store: when it arrives, and then at the instant at
// which the store said that it would admit. If an answer leaves units over, the next question is
// for as many waiters as they suffice for. A waiter is refused as soon as its deadline cannot be
// met.
//
// Permits can come back at any time: the first waiter for one asks after released(), and after
// kReleaseCheck, because another process may have released one. Nobody knows then whether a
// deadline can be met, so the caller ends the wait with expire() at the deadline.
//
//   join() == kAsks -> ask() -> [the store decides] -> answer() -> [at the instant] -> ask() ...
//
// `now` and the deadlines are of one clock of the caller, which should be steady.
//
// Thread-safety: one thread at a time. Ownership: borrows the waiters, which must not move while
// they wait; copies keys. Cost: join() searches the counters with waiters; the rest is O(1) for
// each waiter that it finishes, and O(waiters of the counter) if a deadline cannot be met.
class WaitQueue {
 public:
  static constexpr Duration kReleaseCheck = std::chrono::milliseconds{250};

  struct Options {
    std::size_t most = 65'536;  // waiters; one more is refused with kTooManyWaiters
    bool merges = true;         // whether one question may be for several waiters
  };
  struct Line;  // the waiters of a counter
  // A caller. Fill in the first three members before join().
  struct Waiter {
    Limit limit;
    std::uint64_t cost = 1;
    Instant deadline = {};

    Decision decision = {};     // when it is refused or finished
    Waiter* next = nullptr;     // the one behind it, or the next one that has finished
    Waiter* before = nullptr;   // the one ahead of it
    Line* line = nullptr;       // null: it does not wait
    bool is_asked_for = false;  // by a question that is under way
  };
  enum class Joined : std::uint8_t {
    kRefused,  // `decision` has the reason: too many waiters, or a deadline that cannot be met
    kWaits,    // others are ahead of it
    kAsks,     // it is the first: call ask() now
  };
  // Who must call ask() next, and when: at once if `at` has passed. No waiter: nobody waits for the
  // counter, or a question is under way.
  struct Next {
    Waiter* waiter = nullptr;
    Instant at = {};
  };

  explicit WaitQueue(const Options& options);
  ~WaitQueue();
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  // `charge` names the counter; the limit and the cost are the waiter's.
  Joined join(Waiter& waiter, const Charge& charge, Instant now) noexcept;
  // Returns the question of the first waiter: a take. Its bytes are valid until answer().
  Charge ask(Waiter& first) noexcept;
  // Takes the store's answer. Waiters that have finished leave; `finished` becomes the first of
  // them, in order of arrival.
  Next answer(Waiter& first, const Decision& said, Instant now, Waiter*& finished) noexcept;
  // A waiter gives up; then `next` says who asks. Returns false, and changes nothing, if a question
  // for it is under way: its caller must wait for the answer, and give back what it took.
  bool leave(Waiter& waiter, Instant now, Next& next) noexcept;

  // The deadline of a waiter for a permit has passed: as leave(), and `decision` is a denial.
  bool expire(Waiter& waiter, Instant now, Next& next) noexcept;
  // Call it when permits of the counter were released. Returns the waiter that asks now.
  Next released(const Charge& charge, Instant now) noexcept;

  // Removes all waiters except those of questions that are under way; `left` is the first of them.
  void clear(Waiter*& left) noexcept;

  // Whether callers wait for this counter.
  bool has_waiters(const Charge& charge) const noexcept;
  // The number of waiters.
  std::size_t size() const noexcept { return size_; }

 private:
  class Finished;
  using Name = std::tuple<Algorithm, Keyspace, std::string_view, std::string_view>;

  static Name name_of(const Charge& charge, const Limit& limit) noexcept {
    return {limit.algorithm(), charge.rule.keyspace, charge.tag, charge.key};
  }
  void push(Line& line, Waiter& waiter) noexcept;
  void remove(Waiter& waiter) noexcept;
  void refuse_late(Line& line, const Decision& said, Instant now, Finished& finished) noexcept;
  Next next_of(Line& line) noexcept;

  const Options options_;
  std::size_t size_ = 0;
  std::map<Name, std::unique_ptr<Line>> lines_;  // the names are views of the lines' bytes
};

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
