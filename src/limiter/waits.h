#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <type_traits>

#include "limiter/wait_queue.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/detail/async_waits.h"
#include "sluice/permit.h"
#include "sluice/store.h"

namespace sluice::detail {

// A request that waits for its units on a thread or a fiber of its own.
class WaitingCall : public Waiter {
 public:
  WaitingCall() noexcept : Waiter{.limit = token_bucket(1).per(std::chrono::seconds{1})} {}
  virtual ~WaitingCall() = default;

  // Asks the store to decide the whole request.
  virtual Decision ask(Action action) noexcept = 0;
  // Gives back what the last ask() has taken.
  virtual void give_back() noexcept = 0;
  // The charges of the request that can deny it. May ask the store if ask() was not called yet.
  virtual std::span<const Charge> charges() noexcept = 0;
  // Their decisions in the last ask(), which a denial of the queue changes.
  virtual std::span<Decision> each() noexcept = 0;

  // Blocks until wake(), also an earlier one, or until the instant. Returns false if the caller has
  // given up.
  virtual bool park(Instant until) noexcept = 0;
  // Whether the caller has given up since park() returned.
  virtual bool has_left() noexcept { return false; }
  // Called in any thread.
  virtual void wake() noexcept = 0;
};

// A request that blocks its thread.
class WaitingThread : public WaitingCall {
 public:
  bool park(Instant until) noexcept override;
  void wake() noexcept override;

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_woken_ = false;
};

// Returns what was decided as it is after this delay, for a caller that has waited for it.
inline Decision after(Decision decision, Duration delay) noexcept {
  decision.delay.reset();
  decision.reset_after = std::max(decision.reset_after - delay, Duration{0});
  return decision;
}

// Whether the store can reserve units of the limit ahead.
inline bool is_reservable(const Limit& limit) noexcept {
  return limit.state_kind() == StateKind::kBucket;
}

// The requests that wait for units of a store: for a reservation of buckets to come due, or, with
// other algorithms, in the queue of the counter that denies them (WaitQueue). Only the first of a
// queue asks the store. Who waits for a permit is called when one is released.
//
// It says what each request does next. Here a request asks and sleeps on its own thread or fiber;
// those of AsyncLimiter derive from this class (async_waits.cc).
//
// Thread-safety: any public member from any thread. No lock is held while the store is asked. Cost:
// without waiting requests, that of the store.
class Waits {
 public:
  // `most` requests wait; one more is denied with kTooManyWaiters.
  explicit Waits(std::size_t most = 65'536, const Clock& clock = SteadyClock::instance())
      : Waits(most, clock, false) {}
  virtual ~Waits() = default;
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  // Takes the units of the request, or denies it as soon as the deadline cannot be met. Returns
  // when the caller may act. If the caller gives up, nothing is taken, and the decision is a
  // denial. `said`: the answer of reservation() a moment ago, if it is known.
  Decision acquire(WaitingCall& call, Instant deadline, const Decision* said = nullptr) noexcept;
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

 protected:
  using Lock = std::unique_lock<std::mutex>;
  using State = Waiter::State;
  // kWaits: until wakes_at(); then go_on() follows. kEnded: it gives back what it has taken if
  // `gives_back`.
  using Next = WaitQueue::Next;
  // `merges`: one question may be for several requests.
  Waits(std::size_t most, const Clock& clock, bool merges)
      : most_(most), clock_(clock), queue_(most, merges) {}

  // The rest of the protected members need the lock.

  // Another request has ended, or its turn is another one.
  virtual void changed(Waiter& one) noexcept { static_cast<WaitingCall&>(one).wake(); }

  // The store has answered the request, and each of its charges.
  Next answer(Waiter& one, const Decision& said, std::span<const Charge> charges,
              std::span<const Decision> each) noexcept;
  // Waits in the queue of a counter that cannot be reserved. `said`: the store's denial of a moment
  // ago, if it is known.
  Next join(Waiter& one, const Charge& charge, const Decision* said) noexcept;
  // Its instant has come, or another request has changed it.
  Next go_on(Waiter& one) noexcept;
  // Its caller has given up. If the store decides it, it ends with the answer.
  Next cancel(Waiter& one) noexcept;
  Next end(Waiter& one, const Decision& said) noexcept;
  static Instant wakes_at(const Waiter& one) noexcept;
  // Lets the next of a queue know its turn, unless it is `but`.
  void call(Waiter* next, const Waiter* but) noexcept;

  bool is_full() const noexcept { return queue_.size() + counted_ >= most_; }
  // Counts a request that waits outside of queues, until it ends.
  void count_in(Waiter& one) noexcept;
  void count() noexcept { waiting_.store(queue_.size() + counted_, std::memory_order_relaxed); }

  const std::size_t most_;
  const Clock& clock_;
  std::mutex mutex_;  // protects the members below
  WaitQueue queue_;
  std::size_t counted_ = 0;
  bool is_closed_ = false;  // who would have to wait is cancelled

 private:
  Next join_others(WaitingCall& call, std::span<const Charge> charges, Instant& until) noexcept;
  Next settle(WaitingCall& call, Next next, Instant& until) noexcept;
  Next sleep(Waiter& one, const Decision& said, std::span<const Charge> charges) noexcept;
  Next take(Waiter& one, const Decision& said) noexcept;
  void tell(Waiter& one, const Decision& said) noexcept;
  void drop_cancelled(Waiter*& next, const Waiter& one, Instant now) noexcept;

  std::size_t cancelled_ = 0;  // requests of queues that were cancelled while the store decides
  std::atomic<std::size_t> waiting_{0};
};

// Takes the units of a request to the store, as Waits::acquire(). The requests of all threads of
// the process wait in the same queues.
Decision acquire(const Store& store, WaitingThread& call, Instant deadline) noexcept;
// Permits of these counters were released: as Waits::released() for the threads of the process.
// Cost: one load if no thread waits.
void released(const Store& store, std::span<const Charge> charges) noexcept;

// A permit with its counters, in one piece of memory: this header, the charges of `concurrency`
// limits, room for the answers to the charges if there are several, and the bytes of keys and tags.
struct HeldPermit {
  PermitId id;
  bool is_live = false;
  bool is_single = false;  // the request has one charge, whose answer is that to the request
  std::size_t charge_count = 0;
  std::size_t answer_count = 0;

  // It has more bytes than its type.
  static void operator delete(void* held) noexcept { ::operator delete(held); }

  static bool belongs(const Charge& charge) noexcept {
    return holds_permits(charge.limit.algorithm()) && charge.cost > 0;
  }

  // Copies the charges that belong to a permit.
  static std::unique_ptr<HeldPermit> make(const PermitId& id, std::span<const Charge> charges,
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
    std::unique_ptr<HeldPermit> held(new (::operator new(size))
                                         HeldPermit{.id = id, .answer_count = answer_count});
    for (std::size_t i = 0; i < answer_count; ++i) new (held->answer_begin(count) + i) Decision;
    char* bytes = reinterpret_cast<char*>(held->answer_begin(count) + answer_count);
    const auto copy = [&](std::string_view text) {
      char* const begin = bytes;
      bytes = std::copy(text.begin(), text.end(), bytes);
      return std::string_view(begin, text.size());
    };
    for (const Charge& charge : charges) {
      if (!belongs(charge)) continue;
      new (held->charge_begin() + held->charge_count++)
          Charge{.key = copy(charge.key),
                 .limit = charge.limit,
                 .cost = charge.cost,
                 .tag = copy(charge.tag),
                 .permit = &held->id,
                 .block = charge.block,
                 .rule = {charge.rule.keyspace, charge.rule.limit_id}};
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
