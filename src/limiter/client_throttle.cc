#include "sluice/client_throttle.h"

#include <algorithm>
#include <array>
#include <thread>

#include "limiter/service_answer.h"
#include "sluice/key_builder.h"
#include "sluice/limit_builder.h"
#include "sluice/limiter.h"

namespace sluice {
namespace {

// A stop is the level of a bucket that drains by one unit each millisecond.
constexpr auto kStop = leaky_bucket(1000).per(std::chrono::seconds(1));
constexpr auto kLongestStop = std::chrono::milliseconds(kMaxUnits);
constexpr int kAttempts = 8;

}  // namespace

ClientThrottle::ClientThrottle(Store& store, std::string_view key, const Limit& limit,
                               const Options& options, const Clock& clock)
    : store_(store),
      key_(key),
      stop_key_(KeyBuilder("stop", key).view()),
      limit_(limit),
      options_(options),
      clock_(clock) {
  options_.longest_stop = std::clamp<Duration>(options.longest_stop, Duration{0}, kLongestStop);
}

Duration ClientThrottle::stopped_for() const noexcept {
  const Duration until{stopped_until_.load(std::memory_order_relaxed)};
  return std::max(until - clock_.now().time_since_epoch(), Duration{0});
}

Decision ClientThrottle::stopped(Duration wait) const noexcept {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kLimited,
          .capacity = limit_.capacity(),
          .reset_after = wait,
          .retry_after = wait};
}

Decision ClientThrottle::try_send(std::uint64_t cost) noexcept {
  if (const Duration wait = stopped_for(); wait > Duration{0}) return stopped(wait);
  const std::array charges{
      Charge{.key = key_, .limit = limit_, .cost = cost, .tag = key_},
      Charge{.key = stop_key_, .limit = kStop.burst(kMaxUnits), .cost = 0, .tag = key_}};
  std::array<Decision, 2> each;
  const Decision decision = Limiter(store_).check(charges, each);
  if (!has_numbers(each[1]) || each[1].reset_after <= Duration{0}) return decision;
  if (decision.allowed()) give_back(cost);
  if (decision.reason == Reason::kNever) return decision;
  stop(each[1].reset_after);  // by another program
  return stopped(std::max(each[1].reset_after, decision.retry_after.value_or(Duration{0})));
}

Decision ClientThrottle::wait_to_send(Duration most, std::uint64_t cost) noexcept {
  const Instant end = clock_.now() + most;
  for (;;) {
    const Decision decision = try_send(cost);
    const auto wait = decision.allowed() ? decision.delay : decision.retry_after;
    if (!wait) return decision;
    if (clock_.now() + *wait > end) {
      if (!decision.allowed()) return decision;
      give_back(cost);
      return stopped(*wait);
    }
    std::this_thread::sleep_for(*wait);
    if (!decision.allowed()) continue;
    if (stopped_for() == Duration{0}) return decision;
    give_back(cost);  // an answer has stopped all requests meanwhile
  }
}

void ClientThrottle::give_back(std::uint64_t cost) noexcept {
  store_.apply_one(Verb::kRefund, Charge{.key = key_, .limit = limit_, .cost = cost, .tag = key_},
                   {});
}

void ClientThrottle::record(const ServiceAnswer& answer) noexcept {
  Duration time = read_rate_limit(answer.rate_limit);
  if (answer.status == 429 || answer.status == 503) {
    const Instant now = SystemClock::instance().now();
    time = read_retry_after(answer.retry_after, now).value_or(time);
  }
  time = std::min(time, options_.longest_stop);
  if (time <= Duration{0}) return;
  stop(time);
  share(time);
}

void ClientThrottle::stop(Duration time) noexcept {
  const Duration::rep until = (clock_.now().time_since_epoch() + time).count();
  Duration::rep known = stopped_until_.load(std::memory_order_relaxed);
  while (known < until && !stopped_until_.compare_exchange_weak(known, until)) {
  }
}

// Fills the bucket up to the level of this time. Its capacity here is that level, so two programs
// that do this at the same time do not add their times.
void ClientThrottle::share(Duration time) noexcept {
  const auto level =
      static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
  for (int i = 0; i < kAttempts; ++i) {
    Charge charge{.key = stop_key_, .limit = kStop.burst(kMaxUnits), .cost = 0, .tag = key_};
    const Decision now = store_.apply_one(Verb::kPeek, charge, {});
    const std::uint64_t used = now.capacity - now.remaining;
    if (!has_numbers(now) || used >= level) return;
    charge.limit = kStop.burst(static_cast<std::uint32_t>(level));
    charge.cost = level - used;
    if (store_.apply_one(Verb::kTake, charge, {}).reason != Reason::kLimited) return;
  }
}

}  // namespace sluice
