#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/store_events.h"

namespace sluice {

struct CircuitBreakerOptions {
  // Failures in a row that open it; 0 counts as 1. Fewer: opens sooner, also at a hiccup that many
  // requests wait through together.
  std::uint32_t failures = 5;
  // Percent of failures that opens it too, of at least `least_requests` asked since a first
  // failure, at most `window` ago. 0: only failures in a row do.
  std::uint32_t failed_percent = 50;
  std::uint32_t least_requests = 20;
  Duration window = std::chrono::seconds{1};
  // From opening to the first probe; at least 1 ms. Doubled after each probe that fails, up to
  // `longest_open`; each time is drawn at random from half of it to all of it.
  Duration open_for = std::chrono::seconds{1};
  Duration longest_open = std::chrono::seconds{10};
};

// Knows whether a store is worth asking, so that not every request waits for one that is gone.
//
//   closed   every request is asked. Opens by failures in a row, or by their share.
//   open     none is asked, until it is time for a probe.
//   probing  one request is asked, the others are not. Its answer closes, its failure opens again.
//
// Failures are kStoreTimeout and kStoreError. kForeignValue is an answer: the store is well.
// Answers to what was asked before a change of state do not count.
//
// Thread-safety: any member from any thread. Ownership: borrows the observer and the clock, which
// should be a steady one; share one breaker between the stores that ask one server. Cost: closed,
// one load for a request, and some ns more for the first 1000 successes after a failure; open, a
// load and the clock. No lock is held while the observer is told.
class CircuitBreaker {
 public:
  // The constructor throws std::exception if the system has no randomness to give.
  explicit CircuitBreaker(const CircuitBreakerOptions& options = {},
                          StoreObserver* observer = nullptr,
                          const Clock& clock = SteadyClock::instance());
  ~CircuitBreaker();
  CircuitBreaker(const CircuitBreaker&) = delete;
  CircuitBreaker& operator=(const CircuitBreaker&) = delete;

  enum class State : std::uint8_t { kClosed, kOpen, kProbing };

  // Whether to ask the store. Who may has to tell() how it went.
  class Pass {
   public:
    explicit operator bool() const noexcept { return may_ask_; }

   private:
    friend class CircuitBreaker;
    std::uint64_t seen_ = 0;
    bool may_ask_ = false;
  };
  Pass try_pass() noexcept {
    Pass pass;
    pass.seen_ = state_.load(std::memory_order_relaxed);
    pass.may_ask_ = mode_of(pass.seen_) == State::kClosed;
    return pass.may_ask_ ? pass : try_probe(pass.seen_);
  }
  // What the store answered. kInvalid says nothing of the store.
  void tell(const Pass& pass, Reason reason) noexcept;

  State state() const noexcept { return mode_of(state_.load(std::memory_order_relaxed)); }
  // Requests that were not asked of the store.
  std::uint64_t refused() const noexcept;

 private:
  // A state and an instant in one word, so that each state is another word than all before it:
  // closed, since when; open, until when; probing, until when the probe may take, as who probes
  // might never tell.
  static constexpr State mode_of(std::uint64_t word) noexcept {
    return static_cast<State>(word & 3);
  }
  static std::uint64_t word_of(State mode, Instant instant) noexcept;
  Pass try_probe(std::uint64_t seen) noexcept;
  void count_success(std::uint64_t seen) noexcept;
  void count_failure(std::uint64_t seen, Reason reason) noexcept;
  void begin_window(Instant now) noexcept;
  void forget_counts() noexcept;
  void end_probe(std::uint64_t seen, Reason reason) noexcept;
  Duration next_wait(std::uint32_t probes_failed) noexcept;
  void report(StoreEventKind kind, const char* why) const noexcept;

  class Refusals;

  const CircuitBreakerOptions options_;
  StoreObserver* const observer_;
  const Clock& clock_;
  std::atomic<std::uint64_t> state_;
  std::atomic<bool> watching_{false};  // whether successes count: there has been a failure
  std::atomic<std::uint32_t> successes_{0};
  std::atomic<std::uint32_t> in_row_{0};  // failures
  std::mutex mutex_;                      // of failures: the two below
  std::uint32_t failed_ = 0;
  Instant window_start_{};
  std::atomic<std::uint32_t> probes_failed_{0};
  std::atomic<std::uint64_t> random_;
  std::unique_ptr<Refusals> refusals_;
};

}  // namespace sluice
