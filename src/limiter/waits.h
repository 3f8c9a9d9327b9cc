#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <type_traits>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/detail/async_waits.h"
#include "sluice/permit.h"
#include "sluice/store.h"

namespace sluice::detail {

// A request that waits for its units on a thread or a fiber of its own.
class WaitingCall {
 public:
  virtual ~WaitingCall() = default;

  // Asks the store to decide the whole request.
  virtual Decision ask(Action action) noexcept = 0;
  // Gives back what the last ask() has taken.
  virtual void give_back() noexcept = 0;
  // The charges of the request that can deny it. May ask the store if ask() was not called yet.
  virtual std::span<const Charge> charges() noexcept = 0;
  // Their decisions in the last ask().
  virtual std::span<const Decision> each() noexcept = 0;

  // Blocks until wake(), also an earlier one, or until the instant. Returns false if the caller has
  // given up.
  virtual bool park(Instant until) noexcept = 0;
  // Called in any thread.
  virtual void wake() noexcept = 0;
};

// A request that blocks its thread.
class WaitingThread : public WaitingCall {
 public:
  bool park(Instant until) noexcept override;
  void wake() noexcept final;

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
};

// The requests that wait for units of a store: for a reservation of buckets to come due, or, with
// other algorithms, in the queue of the counter that denies them (WaitQueue). Only the first of a
// queue asks the store. Who waits for a permit is called when one is released.
//
// Thread-safety: any member from any thread. No lock is held while the store is asked. Cost:
// without waiting requests, that of the store.
class Waits {
 public:
  struct Options {
    std::size_t most = 65'536;  // requests that wait; one more is denied with kTooManyWaiters
    const Clock* clock = &SteadyClock::instance();
  };
  Waits() : Waits(Options{}) {}
  explicit Waits(const Options& options)
      : options_(options), queue_({.most = options.most, .merges = false}) {}

  // Takes the units of the request, or denies it as soon as the deadline cannot be met. Returns
  // when the caller may act. If the caller gives up, nothing is taken, and the decision is a
  // denial.
  Decision acquire(WaitingCall& call, Instant deadline) noexcept;
  // As above; `said` is the answer of reservation() a moment ago.
  Decision acquire(WaitingCall& call, Instant deadline, const Decision& said) noexcept;
  // Permits of these counters were released: the first that wait for them ask.
  void released(std::span<const Charge> charges) noexcept;
  // What to ask first.
  static Action reservation(Instant deadline, const Clock& clock) noexcept;
  // Whether the answer says that the request has to wait.
  static bool must_wait(const Decision& said) noexcept {
    return said.allowed() ? said.delay.value_or(Duration{0}) > Duration{0}
                          : said.retry_after.has_value();
  }

  // The number of requests that wait.
  std::size_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

 private:
  struct Place;
  using Lock = std::unique_lock<std::mutex>;

  Decision queue(WaitingCall& call, std::size_t at, Instant deadline, bool is_known) noexcept;
  Decision sleep(WaitingCall& call, Instant deadline, const Decision& said) noexcept;
  bool await_turn(WaitingCall& call, Place& place, Lock& lock) noexcept;
  std::size_t line_of(std::span<const Charge> charges) noexcept;
  void answer(Place& place, const Decision& said) noexcept;
  void call_next(const WaitQueue::Next& next) noexcept;
  void count() noexcept;

  const Options options_;
  std::atomic<std::size_t> waiting_{0};

  std::mutex mutex_;  // protects the members below
  WaitQueue queue_;
  std::size_t sleeping_ = 0;
};

// Takes the units of a request to the store, as Waits::acquire(). The requests of all threads of
// the process wait in the same queues.
Decision acquire(const Store& store, WaitingThread& call, Instant deadline) noexcept;
// Permits of these counters were released: as Waits::released() for the threads of the process.
// Cost: one load if no thread waits.
void released(const Store& store, std::span<const Charge> charges) noexcept;

// A permit with its counters, in one piece of memory: this header, the charges of `concurrency`
// limits, room for as many answers as the request has charges, and the bytes of keys and tags.
struct HeldPermit {
  PermitId id;
  bool is_live = false;
  std::size_t charge_count = 0;
  std::size_t answer_count = 0;

  using Pointer = std::unique_ptr<HeldPermit, DeleteHeldPermit>;

  static bool belongs(const Charge& charge) noexcept {
    return holds_permits(charge.limit.algorithm()) && charge.cost > 0;
  }

  // Copies the charges that belong to a permit.
  static Pointer make(const PermitId& id, std::span<const Charge> charges,
                      std::size_t answer_count) {
    std::size_t count = 0;
    std::size_t names = 0;
    for (const Charge& charge : charges) {
      if (!belongs(charge)) continue;
      ++count;
      names += charge.key.size() + charge.tag.size();
    }
    const std::size_t size =
        sizeof(HeldPermit) + count * sizeof(Charge) + answer_count * sizeof(Decision) + names;
    Pointer held(new (::operator new(size)) HeldPermit{.id = id, .answer_count = answer_count});
    for (std::size_t i = 0; i < answer_count; ++i) new (held->answer_begin(count) + i) Decision;
    char* bytes = reinterpret_cast<char*>(held->answer_begin(count) + answer_count);
    const auto copy = [&](std::string_view text) {
      char* const begin = bytes;
      bytes = std::copy(text.begin(), text.end(), bytes);
      return std::string_view(begin, text.size());
    };
    for (const Charge& charge : charges) {
      if (!belongs(charge)) continue;
      Charge* const own = new (held->charge_begin() + held->charge_count++) Charge(charge);
      own->key = copy(charge.key);
      own->tag = copy(charge.tag);
      own->permit = &held->id;
      own->rule.new_keys = nullptr;
    }
    return held;
  }

  std::span<const Charge> charges() noexcept { return {charge_begin(), charge_count}; }
  std::span<Decision> answers() noexcept { return {answer_begin(charge_count), answer_count}; }

  // Releases, which calls the threads that wait, or extends. There are as many answers as charges,
  // or more.
  Decision apply(Verb verb, Store& store, std::optional<Instant> now) noexcept {
    const Decision said = charge_count == 1
                              ? store.apply_one(verb, charges().front(), now)
                              : store.apply(verb, charges(), now, answers().first(charge_count));
    if (verb == Verb::kRelease) released(store, charges());
    return said;
  }

 private:
  Charge* charge_begin() noexcept { return reinterpret_cast<Charge*>(this + 1); }
  Decision* answer_begin(std::size_t count) noexcept {
    return reinterpret_cast<Decision*>(charge_begin() + count);
  }
};
static_assert(std::is_trivially_destructible_v<Charge>);
static_assert(std::is_trivially_destructible_v<Decision>);
static_assert(alignof(HeldPermit) >= alignof(Charge) && alignof(Charge) >= alignof(Decision));

}  // namespace sluice::detail
