#include "limiter/client_throttle.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <thread>

#include "base/quoted.h"
#include "sluice/client_throttle.h"
#include "sluice/key_builder.h"
#include "sluice/limit_builder.h"
#include "sluice/limiter.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostSeconds = 1'000'000'000;

using base::trimmed;

// Returns a number of digits only, at most kMostSeconds.
std::optional<std::int64_t> number(std::string_view text) noexcept {
  if (!base::is_digits(text)) return {};
  std::int64_t value = 0;
  const auto [_, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::min(value, kMostSeconds) : kMostSeconds;
}

// Removes and returns the text before the next separator outside of quotes.
std::string_view next_part(std::string_view& text, char separator) noexcept {
  bool quoted = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (text[at] == separator && !quoted) {
      break;
    }
  }
  at = std::min(at, text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return trimmed(part);
}

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<Instant> read_date(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() != 29 || text.substr(3, 2) != ", " || text.substr(25) != " GMT") return {};
  const auto* const month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
  const auto day = number(text.substr(5, 2)), year = number(text.substr(12, 4));
  const auto hour = number(text.substr(17, 2)), minute = number(text.substr(20, 2));
  const auto second = number(text.substr(23, 2));
  if (month == kMonths.end() || !day || !year || !hour || !minute || !second) return {};
  const std::chrono::year_month_day date{
      std::chrono::year(static_cast<int>(*year)),
      std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
      std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return {};
  return Instant{std::chrono::sys_days(date)} + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

// The numbers of a policy, as far as they are known.
struct Policy {
  std::optional<std::int64_t> remaining;
  std::optional<std::int64_t> reset;

  // Reads "r=0" or "remaining=0", and "t=7" or "reset=7".
  void read(std::string_view parameter) noexcept {
    const std::size_t equals = parameter.find('=');
    if (equals == parameter.npos) return;
    const std::string_view name = trimmed(parameter.substr(0, equals));
    const auto value = number(trimmed(parameter.substr(equals + 1)));
    if (name == "r" || name == "remaining") remaining = value;
    if (name == "t" || name == "reset") reset = value;
  }
  std::int64_t wait() const noexcept { return remaining == 0 ? reset.value_or(0) : 0; }
};

}  // namespace

std::optional<Duration> read_retry_after(std::string_view field, Instant now) noexcept {
  const std::string_view text = trimmed(field);
  if (const auto seconds = number(text)) return std::chrono::seconds(*seconds);
  const auto date = read_date(text);
  if (!date) return {};
  return std::clamp<Duration>(*date - now, Duration{0}, std::chrono::seconds(kMostSeconds));
}

Duration read_rate_limit(std::string_view field) noexcept {
  std::int64_t longest = 0;
  Policy older;  // older drafts have one policy, whose numbers are members of the list
  while (!field.empty()) {
    std::string_view member = next_part(field, ',');
    older.read(member);
    Policy policy;
    next_part(member, ';');  // the name
    while (!member.empty()) policy.read(next_part(member, ';'));
    longest = std::max(longest, policy.wait());
  }
  return std::chrono::seconds(std::max(longest, older.wait()));
}

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
  if (decision.allowed()) give_back(decision, cost);
  if (decision.reason == Reason::kNever) return decision;
  stop(each[1].reset_after);  // by another program
  return stopped(std::max(each[1].reset_after, decision.retry_after.value_or(Duration{0})));
}

Decision ClientThrottle::wait_to_send(Duration most, std::uint64_t cost) noexcept {
  const Instant begin = clock_.now();
  const Instant end = most < Instant::max() - begin ? begin + most : Instant::max();
  for (;;) {
    const Decision decision = try_send(cost);
    const auto wait = decision.allowed() ? decision.delay : decision.retry_after;
    if (!wait) return decision;
    if (clock_.now() + *wait > end) {
      if (!decision.allowed()) return decision;
      give_back(decision, cost);
      return stopped(*wait);
    }
    std::this_thread::sleep_for(*wait);
    if (!decision.allowed()) continue;
    if (stopped_for() == Duration{0}) return decision;
    give_back(decision, cost);  // an answer has stopped all requests meanwhile
  }
}

void ClientThrottle::give_back(const Decision& decision, std::uint64_t cost) noexcept {
  if (!detail::took_units(decision)) return;
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
