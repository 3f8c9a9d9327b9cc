#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/detail/async_waits.h"
#include "sluice/store.h"

namespace sluice::detail {

// Requests by the instant at which they wake, the earliest first. A binary heap in which each one
// knows its place, so that it can be removed.
//
// Thread-safety: one thread at a time. Ownership: borrows the requests. Cost: 16 bytes for each;
// O(log n), and O(1) for the first.
class WakeHeap {
 public:
  // Makes room, so that add() cannot fail while there are fewer than `count` sleepers.
  bool reserve(std::size_t count) noexcept try {
    if (heap_.capacity() < count) heap_.reserve(count + count / 2);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  void add(Waiter& sleeper, Instant at) noexcept {
    heap_.push_back({at, &sleeper});
    rise(heap_.size() - 1);
  }
  // Does nothing if the sleeper is in no heap.
  void remove(Waiter& sleeper) noexcept {
    if (sleeper.place == 0) return;
    const std::size_t place = std::exchange(sleeper.place, 0) - 1;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    put(place, last);
    rise(place);
    sink(last.sleeper->place - 1);
  }

  bool empty() const noexcept { return heap_.empty(); }
  // The first sleeper, and when it wakes. There must be one.
  Waiter& first() const noexcept { return *heap_.front().sleeper; }
  Instant at() const noexcept { return heap_.front().at; }

 private:
  struct Entry {
    Instant at;
    Waiter* sleeper;
  };
  void put(std::size_t place, const Entry& entry) noexcept {
    heap_[place] = entry;
    entry.sleeper->place = static_cast<std::uint32_t>(place + 1);
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

// Returns a denial of a request by this limit.
Decision refusal(Reason reason, const Limit& limit) noexcept;

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
// deadline can be met, so the caller ends the wait with leave() at the deadline.
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

  // What a request does next.
  enum class Next : std::uint8_t {
    kAsks,   // the store; then answer() follows. In a queue, it calls ask() before
    kWaits,  // until its instant has come, or until it is called
    kEnded,  // `decision` is the answer
  };

  // At most `most` waiters: one more is refused with kTooManyWaiters. `merges`: one question may be
  // for several waiters.
  explicit WaitQueue(std::size_t most = 65'536, bool merges = true);
  ~WaitQueue();
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  // `charge` names the counter; the limit and the cost are the waiter's. The first one asks now;
  // one that ends is one too many, or its deadline cannot be met. Requests for budgets in a row
  // (`alternative`), which may fit into another one, have a queue of their own. `ahead`: how far
  // the clock of calendars is ahead of `now`. `said`: the store's denial of a moment ago.
  Next join(Waiter& waiter, const Charge& charge, Instant now, Duration ahead = {},
            const Decision* said = nullptr) noexcept;
  // Returns the question of the first waiter: a take, without its permit. Its bytes are valid until
  // answer().
  Charge ask(Waiter& first) noexcept;
  // Takes the store's answer. Waiters that have finished leave; `finished` becomes the first of
  // them, in order of arrival. Returns who calls ask() next, at its `turn`: at once if that has
  // passed. Null: nobody waits for the counter, or a question is under way.
  Waiter* answer(Waiter& first, const Decision& said, Instant now, Waiter*& finished) noexcept;
  // A waiter gives up, or the deadline of one for a permit has passed: its `decision` becomes a
  // denial, and `next` says who asks. Returns false, and changes nothing, if a question for it is
  // under way: its caller must wait for the answer, and give back what it took.
  bool leave(Waiter& waiter, Instant now, Waiter*& next) noexcept;
  // Call it when permits of the counter were released. Returns the waiter that asks now.
  Waiter* released(const Charge& charge, Instant now) noexcept;

  // Removes all waiters, those of questions that are under way only if `with_asked_for`; `left` is
  // the first of them.
  void clear(Waiter*& left, bool with_asked_for = false) noexcept;

  // Whether callers wait for this counter.
  bool has_waiters(const Charge& charge) const noexcept;
  // The number of waiters.
  std::size_t size() const noexcept { return size_; }

 private:
  using Name = std::tuple<Algorithm, Keyspace, bool, std::string_view, std::string_view>;

  static Name name_of(const Charge& charge, const Limit& limit) noexcept {
    return {limit.algorithm(), charge.rule.keyspace, charge.alternative, charge.tag, charge.key};
  }
  void push(WaitLine& line, Waiter& waiter) noexcept;
  void remove(Waiter& waiter) noexcept;
  void refuse_late(WaitLine& line, const Decision& said, Instant now,
                   Waiter**& last_finished) noexcept;
  Waiter* next_of(WaitLine& line) noexcept;

  const std::size_t most_;
  const bool merges_;
  std::size_t size_ = 0;
  std::map<Name, std::unique_ptr<WaitLine>> lines_;  // the names are views of the lines' bytes
};

}  // namespace sluice::detail
