#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>

#include "sluice/decision.h"
#include "sluice/store.h"

namespace sluice::detail {

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
    return {limit.algorithm(), charge.keyspace, charge.tag, charge.key};
  }
  void push(Line& line, Waiter& waiter) noexcept;
  void remove(Waiter& waiter) noexcept;
  void refuse_late(Line& line, const Decision& said, Instant now, Finished& finished) noexcept;
  Next next_of(Line& line) noexcept;

  const Options options_;
  std::size_t size_ = 0;
  std::map<Name, std::unique_ptr<Line>> lines_;  // the names are views of the lines' bytes
};

}  // namespace sluice::detail
