#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"

namespace sluice {
namespace policy {
class SpreadCount;
}

// When a CircuitBreaker opens, and for how long.
struct CircuitBreakerOptions {
  // The number of failures in a row that opens the breaker; 0 counts as 1. A lower number opens it
  // sooner, but it also opens if many requests fail together in a short disturbance.
  std::uint32_t failures = 5;
  // The percentage of failed requests that also opens the breaker, out of at least
  // `least_requests` since a first failure at most `window` ago. 0: only failures in a row open it.
  std::uint32_t failed_percent = 50;
  std::uint32_t least_requests = 20;
  Duration window = std::chrono::seconds{1};
  // The time from opening to the first probe, at least 1 ms. It doubles after each probe that
  // fails, up to `longest_open`. The breaker waits a random time between half of it and all of it.
  Duration open_for = std::chrono::seconds{1};
  Duration longest_open = std::chrono::seconds{10};
};

// Decides whether to ask a store, so that requests do not wait for a store that fails.
//
//   closed   All requests go to the store. Failures in a row, or their share, open the breaker.
//   open     No request goes to the store until the next probe is due.
//   probing  One request goes to the store. Its success closes the breaker, its failure opens it.
//
// kStoreTimeout and kStoreError are failures. kForeignValue and kStoreFull are not: the store
// works. Answers to requests from before a change of state do not count.
//
// Thread-safety: any member from any thread. Ownership: borrows the observer and the clock, which
// should be steady; share one breaker between the stores that ask one server. Cost: closed, one
// load per request, and a few ns more for the first 1000 successes after a failure; open, a load
// and a clock reading. No lock is held while the observer is called.
class CircuitBreaker {
 public:
  // The constructor throws std::exception if the system provides no random bytes.
  explicit CircuitBreaker(const CircuitBreakerOptions& options = {},
                          StoreObserver* observer = nullptr,
                          const Clock& clock = SteadyClock::instance());
  ~CircuitBreaker();
  CircuitBreaker(const CircuitBreaker&) = delete;
  CircuitBreaker& operator=(const CircuitBreaker&) = delete;

  // What the breaker does with requests; see above.
  enum class State : std::uint8_t { kClosed, kOpen, kProbing };

  // The answer of try_pass(): true if the caller may ask the store. It must then call record().
  class Pass {
   public:
    explicit operator bool() const noexcept { return may_ask_; }
    // Whether this request decides if the breaker closes.
    bool is_probe() const noexcept { return may_ask_ && mode_of(seen_) == State::kProbing; }

   private:
    friend class CircuitBreaker;
    std::uint64_t seen_ = 0;
    bool may_ask_ = false;
  };
  // Returns whether to ask the store for this request.
  Pass try_pass() noexcept {
    Pass pass;
    pass.seen_ = state_.load(std::memory_order_relaxed);
    pass.may_ask_ = mode_of(pass.seen_) == State::kClosed;
    return pass.may_ask_ ? pass : try_probe(pass.seen_);
  }
  // Records the reason of the store's answer. kInvalid does not count: the next request is the
  // probe.
  void record(const Pass& pass, Reason reason) noexcept;

  // Ends the wait of an open breaker, because the store may work again: the next request is a
  // probe. If a probe is under way and fails, so is the request after it.
  void probe_soon() noexcept;

  // Returns whether the next request is a probe. A program whose requests may cease asks this from
  // time to time and then sends a request of its own, so that it sees that the store works again.
  bool probe_is_due() const noexcept;

  // Returns the state now.
  State state() const noexcept { return mode_of(state_.load(std::memory_order_relaxed)); }
  // Returns the number of requests that it kept from the store.
  std::uint64_t refused() const noexcept;

 private:
  // A state and an instant in one word, so that no state has the same word as an earlier one.
  // kClosed: when it closed. kOpen: when the next probe is due. kProbing: the probe's deadline, in
  // case the probe never returns.
  static constexpr State mode_of(std::uint64_t word) noexcept {
    return static_cast<State>(word & 3);
  }
  static constexpr Instant instant_of(std::uint64_t word) noexcept {
    return Instant{Duration{static_cast<Duration::rep>(word >> 2)}};
  }
  static std::uint64_t word_of(State mode, Instant instant) noexcept;
  Pass try_probe(std::uint64_t seen) noexcept;
  void count_success(std::uint64_t seen) noexcept;
  void count_failure(std::uint64_t seen, Reason reason) noexcept;
  void begin_window(Instant now) noexcept;
  void forget_counts() noexcept;
  void end_probe(std::uint64_t seen, Reason reason) noexcept;
  Duration next_wait(std::uint32_t probes_failed) noexcept;
  void report(StoreEventKind kind, const char* why, Duration lasted = {}) const noexcept;

  const CircuitBreakerOptions options_;
  StoreObserver* const observer_;
  const Clock& clock_;
  std::atomic<std::uint64_t> state_;
  std::atomic<bool> probe_again_{false};  // probe_soon() was called during the probe
  std::atomic<bool> watching_{false};     // there was a failure, so that successes are counted
  std::atomic<std::uint32_t> successes_{0};
  std::atomic<std::uint32_t> in_row_{0};  // failures
  std::mutex mutex_;                      // guards the next
  std::uint32_t failed_ = 0;
  Instant window_start_{}, row_start_{}, last_failed_{};
  std::atomic<std::uint32_t> probes_failed_{0};
  std::atomic<std::uint64_t> random_;
  std::unique_ptr<policy::SpreadCount> refusals_;
};

// How a LocalShareStore divides limits, and the memory for its counters.
struct LocalShareOptions {
  // The number of processes that share the limits: each admits 1/nodes. 0 counts as 1.
  std::uint32_t nodes = 1;
  MemoryStoreOptions memory = {};
};

// One process's share of limits, in its memory: each limit at limit/nodes and capacity/nodes,
// rounded down, but at least 1 if it was above 0.
//
// `nodes` processes together admit no more than the limit, or one unit each if the limit is smaller
// than `nodes`. A cost beyond the share is denied even if the whole limit could hold it. Counters
// have the same names as in other stores; answers contain the numbers of the share.
//
// Thread-safety and ownership: as MemoryStore. Cost: as MemoryStore, and about 20 ns per charge.
class LocalShareStore final : public Store {
 public:
  // Borrows the clock.
  explicit LocalShareStore(const LocalShareOptions& options = {},
                           const Clock& clock = SystemClock::instance());

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

  // Returns the counts of the memory store.
  MemoryStoreStats stats() const { return store_.stats(); }

 private:
  std::uint32_t nodes_;
  MemoryStore store_;
};

// Returns the share of 1/nodes of a limit.
Limit share_of(const Limit& limit, std::uint32_t nodes) noexcept;

// What a FailurePolicyStore answers if its store fails.
struct FailurePolicyOptions {
  // The answer to requests that the store could not decide. Absent: Outcome::kFailed with the
  // store's reason (rules then apply their own `on_store_error`).
  std::optional<FailurePolicy> fallback = {};
  // For kLocal: the number of processes that share the limits; see LocalShareOptions.
  std::uint32_t nodes = 1;
  // For kLocal: used instead of a LocalShareStore of its own. Pass the same one to all stores of a
  // process that share limits; otherwise each admits the whole share. Borrowed.
  Store* local = nullptr;
};

// A store that answers at once, by a policy, if another store cannot decide.
//
//   auto redis = RedisStore::open({.url = "redis://10.0.0.5"}).value();
//   CircuitBreaker breaker;
//   FailurePolicyStore store(*redis, breaker, {.fallback = FailurePolicy::kLocal, .nodes = 4});
//   Limiter limiter(store);
//
// RedisChain (redis_chain.h) opens and owns all of these.
//
// A request goes to the store if the breaker lets it pass. If the breaker does not, or the store
// answers kStoreTimeout, kStoreError, kForeignValue or kStoreFull, takes and peeks get the reason
// kFallback:
//   kAllow, kDeny  with the capacity, without remaining units or waits, because nobody knows them
//   kLocal         with the answer of the local share, which the request is charged to
// If the store is full, only the charges that need a new counter get the policy's answer; the store
// decides the others. A request that is kInvalid stays so. The policy never answers refunds and
// resets: one that was not executed fails with the store's reason, or with kStoreError if the store
// was not asked. With kLocal it is also executed in the local share. A request that timed out may
// have been counted by the store: units are then counted once more than they were admitted, never
// less.
//
// Thread-safety: any member from any thread. Ownership: borrows the store, the breaker and
// `local`. Cost: a load while the breaker is closed; about 30 ns while it is open, with kLocal in
// addition that of its store.
class FailurePolicyStore final : public Store {
 public:
  // Puts the breaker and the policy in front of the store.
  FailurePolicyStore(Store& store, CircuitBreaker& breaker,
                     const FailurePolicyOptions& options = {});

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

 private:
  friend class AsyncFailurePolicyStore;
  // A request that has passed the breaker.
  class Request;

  // Only answers for a store, and asks none.
  FailurePolicyStore(CircuitBreaker& breaker, const FailurePolicyOptions& options);
  bool leaves_out_new(const Decision& said, Action action,
                      std::span<const Charge> charges) const noexcept;
  Decision answer_to(const Decision& said, Action action, std::span<const Charge> charges,
                     std::optional<Instant> now, std::span<Decision> each) noexcept;
  Decision or_local(const Decision& said, Action action, std::span<const Charge> charges,
                    std::optional<Instant> now, std::span<Decision> each) noexcept;
  Decision fall_back(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                     std::span<Decision> each, Reason failed) noexcept;

  Store* store_;
  CircuitBreaker* breaker_;
  std::optional<FailurePolicy> fallback_;
  std::unique_ptr<Store> own_local_;
  Store* local_;
};

}  // namespace sluice
