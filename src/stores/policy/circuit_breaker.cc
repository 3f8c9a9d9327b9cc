#include "sluice/failure_policy.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>

#include "stores/policy/spread_count.h"

namespace sluice {
namespace {

constexpr Duration kLeastOpen = std::chrono::milliseconds{1};
// The number of successes since the first failure of a window that ends the counting.
constexpr std::uint32_t kWellAgain = 1000;
// Failures further apart are not of one outage, although they count as a row.
constexpr Duration kApart = std::chrono::seconds{10};

constexpr bool is_failure(Reason reason) noexcept {
  return reason == Reason::kStoreTimeout || reason == Reason::kStoreError;
}

CircuitBreakerOptions in_range(CircuitBreakerOptions options) noexcept {
  options.failures = std::max(options.failures, 1u);
  options.open_for = std::max(options.open_for, kLeastOpen);
  options.longest_open = std::max(options.longest_open, options.open_for);
  return options;
}

std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A short text on the stack: what opened a breaker.
using Why = std::array<char, 96>;

}  // namespace

CircuitBreaker::CircuitBreaker(const CircuitBreakerOptions& options, StoreObserver* observer,
                               const Clock& clock)
    : options_(in_range(options)),
      observer_(observer),
      clock_(clock),
      state_(word_of(State::kClosed, Instant{})),
      random_(std::uint64_t{std::random_device()()} << 32 | std::random_device()()),
      refusals_(std::make_unique<policy::SpreadCount>()) {}

CircuitBreaker::~CircuitBreaker() = default;

std::uint64_t CircuitBreaker::word_of(State mode, Instant instant) noexcept {
  return static_cast<std::uint64_t>(instant.time_since_epoch().count()) << 2 |
         static_cast<std::uint64_t>(mode);
}

CircuitBreaker::Pass CircuitBreaker::try_probe(std::uint64_t seen) noexcept {
  Pass pass;
  const Instant now = clock_.now();
  const std::uint64_t probing = word_of(State::kProbing, now + options_.open_for);
  if (now < instant_of(seen) || !state_.compare_exchange_strong(seen, probing)) {
    refusals_->add_one();
    return pass;
  }
  probe_again_.store(false);
  report(StoreEventKind::kBreakerProbing, "");
  pass.seen_ = probing;
  pass.may_ask_ = true;
  return pass;
}

void CircuitBreaker::record(const Pass& pass, Reason reason) noexcept {
  if (!pass) return;
  if (mode_of(pass.seen_) == State::kProbing) return end_probe(pass.seen_, reason);
  if (is_failure(reason)) return count_failure(pass.seen_, reason);
  if (watching_.load(std::memory_order_relaxed) && reason != Reason::kInvalid) {
    count_success(pass.seen_);
  }
}

void CircuitBreaker::count_success(std::uint64_t seen) noexcept {
  if (state_.load(std::memory_order_relaxed) != seen) return;
  in_row_.store(0, std::memory_order_relaxed);
  const std::uint32_t successes = successes_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (successes >= kWellAgain) watching_.store(false, std::memory_order_relaxed);
}

void CircuitBreaker::count_failure(std::uint64_t seen, Reason reason) noexcept {
  Why why{};
  Duration lasted{};
  {
    const std::lock_guard lock(mutex_);
    if (state_.load(std::memory_order_relaxed) != seen) return;
    const Instant now = clock_.now();
    begin_window(now);
    ++failed_;
    const std::uint32_t in_row = in_row_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (in_row == 1 || now - last_failed_ > kApart) row_start_ = now;
    last_failed_ = now;
    const std::uint32_t all = failed_ + successes_.load(std::memory_order_relaxed);
    if (in_row >= options_.failures) {
      std::snprintf(why.data(), why.size(), "%u failures in a row, the last %s", in_row,
                    to_string(reason).data());
      lasted = now - row_start_;
    } else if (options_.failed_percent > 0 && all >= options_.least_requests &&
               std::uint64_t{failed_} * 100 >= std::uint64_t{all} * options_.failed_percent) {
      std::snprintf(why.data(), why.size(), "%u of %u requests failed, the last %s", failed_, all,
                    to_string(reason).data());
      lasted = now - std::min(row_start_, window_start_);
    } else {
      return;
    }
    probes_failed_.store(0, std::memory_order_relaxed);
    forget_counts();
    state_.store(word_of(State::kOpen, now + next_wait(0)));
  }
  report(StoreEventKind::kBreakerOpened, why.data(), lasted);
}

void CircuitBreaker::begin_window(Instant now) noexcept {
  const bool goes_on =
      watching_.load(std::memory_order_relaxed) && now - window_start_ <= options_.window;
  if (goes_on) return;
  window_start_ = now;
  failed_ = 0;
  successes_.store(0, std::memory_order_relaxed);
  watching_.store(true, std::memory_order_relaxed);
}

void CircuitBreaker::forget_counts() noexcept {
  in_row_.store(0, std::memory_order_relaxed);
  watching_.store(false, std::memory_order_relaxed);
}

void CircuitBreaker::end_probe(std::uint64_t seen, Reason reason) noexcept {
  const Instant now = clock_.now();
  if (reason == Reason::kInvalid) {  // the store was not asked: the next request is the probe
    state_.compare_exchange_strong(seen, word_of(State::kOpen, now));
    return;
  }
  if (!is_failure(reason)) {
    if (!state_.compare_exchange_strong(seen, word_of(State::kClosed, now))) return;
    return report(StoreEventKind::kBreakerClosed, "");
  }
  const std::uint32_t failed = probes_failed_.load(std::memory_order_relaxed) + 1;
  const Duration wait = probe_again_.exchange(false) ? Duration{0} : next_wait(failed);
  const std::uint64_t open = word_of(State::kOpen, now + wait);
  if (!state_.compare_exchange_strong(seen, open)) return;
  probes_failed_.store(failed, std::memory_order_relaxed);
  Why why{};
  std::snprintf(why.data(), why.size(), "the probe failed: %s", to_string(reason).data());
  report(StoreEventKind::kBreakerOpened, why.data());
}

void CircuitBreaker::probe_soon() noexcept {
  std::uint64_t seen = state_.load(std::memory_order_relaxed);
  if (mode_of(seen) == State::kClosed) return;
  probe_again_.store(true);  // before the probe can end
  seen = state_.load();
  if (mode_of(seen) != State::kOpen) return;
  probes_failed_.store(0, std::memory_order_relaxed);
  state_.compare_exchange_strong(seen, word_of(State::kOpen, clock_.now()));
}

bool CircuitBreaker::probe_is_due() const noexcept {
  const std::uint64_t seen = state_.load(std::memory_order_relaxed);
  return mode_of(seen) != State::kClosed && clock_.now() >= instant_of(seen);
}

// Random between half of it and all of it, so that processes that lost the same server do not all
// return at the same time.
Duration CircuitBreaker::next_wait(std::uint32_t probes_failed) noexcept {
  Duration whole = options_.open_for;
  for (std::uint32_t i = 0; i < probes_failed && whole < options_.longest_open; ++i) whole *= 2;
  whole = std::min(whole, options_.longest_open);
  const std::uint64_t draw =
      mixed(random_.fetch_add(0x9E3779B97F4A7C15u, std::memory_order_relaxed));
  const auto half = static_cast<std::uint64_t>(whole.count()) / 2;
  return whole - Duration{static_cast<Duration::rep>(draw % (half + 1))};
}

void CircuitBreaker::report(StoreEventKind kind, const char* why, Duration lasted) const noexcept {
  if (observer_ == nullptr) return;
  observer_->on({.kind = kind, .endpoint = {}, .why = why, .lasted = lasted});
}

std::uint64_t CircuitBreaker::refused() const noexcept { return refusals_->get(); }

}  // namespace sluice
