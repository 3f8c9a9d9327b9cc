#include "limiter/limit_arguments.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "core/calendar.h"
#include "core/decision.h"
#include "core/limit.h"
#include "core/period.h"
#include "sluice/permit_id.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostCount = static_cast<std::int64_t>(kMaxUnits);
constexpr std::int64_t kMostPeriodSeconds =
    std::chrono::duration_cast<std::chrono::seconds>(kMaxPeriod).count();
constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

constexpr NumberArgument kBurst{"max_burst", 0, kMostCount - 1};
constexpr NumberArgument kCrabBurst{"max_burst", 1, kMostCount};
constexpr NumberArgument kPeriod{"period_seconds", 1, kMostPeriodSeconds};
constexpr NumberArgument kQuantity{"quantity", -kAnyNumber, kAnyNumber};
constexpr NumberArgument kCrabQuantity{"quantity", 0, kAnyNumber};
constexpr NumberArgument kTokens{"count", 0, kMostCount};

constexpr NumberArgument count_of(ThrottleForm form) noexcept {
  return {form == ThrottleForm::kGcra ? "tokens_per_period" : "count", 1, kMostCount};
}

// Seconds with at most six digits after the point.
Expected<Duration> parse_seconds(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string fraction(text.substr(std::min(point + 1, text.size())));
  const bool has_fraction = point < text.size();
  const auto seconds = whole_number(whole);
  constexpr std::size_t kDigits = 6;
  const bool is_number = seconds && *seconds >= 0 && fraction.size() <= kDigits &&
                         has_fraction == base::is_digits(fraction);
  if (is_number && *seconds <= kMostPeriodSeconds) {
    fraction.resize(kDigits, '0');
    const std::size_t first = std::min(fraction.find_first_not_of('0'), kDigits - 1);
    const auto micros = whole_number(std::string_view(fraction).substr(first));
    const Duration period = std::chrono::seconds(*seconds) + Duration{micros.value_or(0)};
    if (period >= kMinPeriod && period <= kMaxPeriod) return period;
  }
  return Unexpected{std::string("period ") +
                    (is_number ? "is out of range: "
                               : "is not a number of "
                                 "seconds with at most 6 digits after the "
                                 "point: ") +
                    base::in_quotes(text) + "; expected 0.001 to " +
                    std::to_string(kMostPeriodSeconds)};
}

Expected<Duration> parse_period_of(ThrottleForm form, std::string_view text) {
  if (form == ThrottleForm::kGcra) return parse_seconds(text);
  const auto seconds = parse_number(text, kPeriod);
  if (!seconds) return Unexpected{seconds.error()};
  return Duration{std::chrono::seconds(*seconds)};
}

Expected<std::int64_t> parse_quantity(ThrottleForm form, std::span<const std::string_view> words) {
  if (words.empty()) return 1;
  if (form != ThrottleForm::kGcra) {
    if (words.size() > 1) return Unexpected{std::string("there are too many arguments")};
    return parse_number(words[0], form == ThrottleForm::kCrab ? kCrabQuantity : kQuantity);
  }
  if (same_word(words[0], "TOKENS") || same_word(words[0], "NUM_REQUESTS")) {
    if (words.size() == 2) return parse_number(words[1], kTokens);
    return Unexpected{"the option " + base::in_quotes(words[0]) + " has " +
                      std::to_string(words.size() - 1) + " values; expected TOKENS count"};
  }
  return Unexpected{"there is no option " + base::in_quotes(words[0]) + "; expected TOKENS count"};
}

std::int64_t whole_seconds(Duration duration) noexcept {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

// Returns the seconds until reset and until retry as throttlecrab computes them: the time for one
// unit is cut to nanoseconds, the counter starts one unit behind the clock, and times are cut to
// seconds.
std::array<std::int64_t, 2> crab_seconds(const ThrottleArguments& asked, const Limit& limit,
                                         const Decision& decision) noexcept {
  using std::chrono::nanoseconds;
  const nanoseconds unit = nanoseconds(asked.period) / static_cast<std::int64_t>(asked.count);
  const auto capacity = static_cast<std::int64_t>(limit.capacity());
  const auto remaining = static_cast<std::int64_t>(decision.remaining);
  // `reset_after` is rounded up to a microsecond, so at most the time of the units that are used.
  const nanoseconds used =
      std::min(nanoseconds(decision.reset_after), (capacity - remaining) * unit);
  const auto seconds = [](nanoseconds time) {
    return std::max<std::int64_t>(std::chrono::floor<std::chrono::seconds>(time).count(), 0);
  };
  const std::int64_t excess =
      std::min(static_cast<std::int64_t>(asked.cost()) - capacity,
               (nanoseconds::max() - used) / std::max(unit, nanoseconds{1}));  // longest: 292 years
  return {seconds(used + (capacity - 2) * unit),
          decision.allowed() ? 0 : seconds(used + excess * unit)};
}

}  // namespace

Unexpected<std::string> wrong_number(std::string_view text, const NumberArgument& argument) {
  const auto number = whole_number(text);
  // A number that needs more than 64 bits is still a number.
  const std::string_view unsigned_text = text.substr(text.starts_with('-') ? 1 : 0);
  const bool has_digits = base::is_digits(unsigned_text) && unsigned_text.front() != '0';
  std::string error(argument.name);
  error.append(number || has_digits ? " is out of range: " : " is not an integer: ");
  error.append(base::in_quotes(text)).append("; expected a whole number from ");
  error.append(std::to_string(argument.least)).append(" to ");
  error.append(std::to_string(argument.most));
  return Unexpected{error};
}

Expected<Limit> ThrottleArguments::limit(ThrottleForm form) const {
  auto limit =
      Limit::make({.algorithm = Algorithm::kGcra, .limit = count, .per = period, .burst = burst});
  if (limit) return limit;
  const std::string_view period_name = form == ThrottleForm::kGcra ? "period" : kPeriod.name;
  return Unexpected{std::string(count_of(form).name) + " and " + std::string(period_name) +
                    " with this max_burst: " + limit.error()};
}

Verb ThrottleArguments::verb() const noexcept {
  if (quantity < 0) return Verb::kRefund;
  return quantity == 0 ? Verb::kPeek : Verb::kTake;
}

std::uint64_t ThrottleArguments::cost() const noexcept {
  const auto units = static_cast<std::uint64_t>(quantity);
  return quantity < 0 ? std::min(0 - units, kMaxUnits) : std::min(units, kMaxUnits + 1);
}

namespace {

// Reads the arguments of most requests: small numbers, no quantity. Returns nothing for any other.
std::optional<ThrottleArguments> parse_usual(std::span<const std::string_view> words) noexcept {
  if (words.size() != 3) return std::nullopt;
  const auto burst = small_number(words[0]);
  const auto count = small_number(words[1]);
  const auto seconds = small_number(words[2]);
  if (!burst || !count || !seconds || *seconds > kMostPeriodSeconds) return std::nullopt;
  return ThrottleArguments{.burst = static_cast<std::uint64_t>(*burst),
                           .count = static_cast<std::uint64_t>(*count),
                           .period = std::chrono::seconds(*seconds)};
}

}  // namespace

Expected<ThrottleArguments> parse_throttle(ThrottleForm form,
                                           std::span<const std::string_view> words) {
  if (form == ThrottleForm::kCell) {
    if (const auto usual = parse_usual(words)) return *usual;
  }
  const bool is_crab = form == ThrottleForm::kCrab;
  const auto burst = parse_number(words[0], is_crab ? kCrabBurst : kBurst);
  if (!burst) return Unexpected{burst.error()};
  const auto count = parse_number(words[1], count_of(form));
  if (!count) return Unexpected{count.error()};
  const auto period = parse_period_of(form, words[2]);
  if (!period) return Unexpected{period.error()};
  const auto quantity = parse_quantity(form, words.subspan(3));
  if (!quantity) return Unexpected{quantity.error()};
  return ThrottleArguments{.burst = static_cast<std::uint64_t>(*burst - (is_crab ? 1 : 0)),
                           .count = static_cast<std::uint64_t>(*count),
                           .period = *period,
                           .quantity = *quantity};
}

std::array<std::int64_t, 5> throttle_reply(ThrottleForm form, const ThrottleArguments& asked,
                                           const Limit& limit, const Decision& decision) noexcept {
  const bool is_allowed = decision.allowed();
  const auto capacity = static_cast<std::int64_t>(limit.capacity());
  const auto remaining = static_cast<std::int64_t>(decision.remaining);
  if (form == ThrottleForm::kCrab) {
    const auto [reset, retry] = crab_seconds(asked, limit, decision);
    return {is_allowed ? 1 : 0, capacity, remaining, reset, retry};
  }
  const bool waits = !is_allowed && decision.retry_after;
  const std::int64_t retry = waits ? whole_seconds(*decision.retry_after) : -1;
  return {is_allowed ? 0 : 1, capacity, remaining, retry, whole_seconds(decision.reset_after)};
}

namespace {

constexpr auto kMostUnits = static_cast<std::int64_t>(kMaxAmount);

// Reads the words of one command. A function that fails leaves the error.
class LimitParser {
 public:
  explicit LimitParser(const CounterVerb& verb) : verb_(verb) {}

  Expected<LimitArguments> parse(std::span<const std::string_view> words) {
    const auto limit = read(words);
    if (!limit) return Unexpected{std::move(error_)};
    return LimitArguments{
        .limit = *limit, .cost = cost_, .actual = actual_, .max_wait = max_wait_, .id = id_};
  }

 private:
  bool fail(std::string why) {
    error_ = std::move(why);
    return false;
  }
  bool read_units(std::string_view name, std::string_view value, std::uint64_t least,
                  std::uint64_t& out, std::uint64_t most = kMaxAmount) {
    const auto number = parse_number(
        value, {name, static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)});
    if (!number) return fail(number.error());
    out = static_cast<std::uint64_t>(*number);
    return true;
  }

  // Returns the index of a word, which is the value of its enumerator.
  bool read_word(const core::OptionInfo& option, std::string_view value, std::uint64_t& out) {
    for (std::size_t i = 0; i < option.words.size(); ++i) {
      out = i;
      if (same_word(value, option.words[i])) return true;
    }
    return fail(base::upper_case(option.name) + ": there is no " + base::in_quotes(value) +
                "; expected " + base::joined(option.words, " or "));
  }

  // Returns the milliseconds of a time, which Limit::make() checks.
  bool read_time(const core::OptionInfo& option, std::string_view value, std::uint64_t& out) {
    const auto time = core::parse_period(value);
    if (!time) return fail(base::upper_case(option.name) + ": " + time.error());
    out = static_cast<std::uint64_t>(*time / std::chrono::milliseconds{1});
    return true;
  }

  bool refuse_option(std::string_view name) {
    std::string names;
    for (const core::OptionInfo& option : core::kLimitOptions) {
      names.append(names.empty() ? "" : ", ").append(base::upper_case(option.name));
    }
    std::vector<std::string_view> own{"STARTS"};
    if (verb_.has_cost()) own.push_back(verb_.cost_word());
    const std::string_view required = verb_.required();
    if (!required.empty() && required != own.back()) own.push_back(required);
    if (verb_.has_id() && required != "ID") own.emplace_back("ID");
    return fail("there is no option " + base::in_quotes(name) + "; expected " + names + ", ZONE, " +
                base::joined(own, " or "));
  }

  bool read_option(std::string_view name, std::string_view value) {
    const bool is_required = !verb_.required().empty() && same_word(name, verb_.required());
    has_required_ |= is_required;
    if (is_required && verb_.verb == Verb::kReserve) {
      const auto wait = parse_max_wait(value);
      if (!wait) return fail(wait.error());
      max_wait_ = *wait;
      return true;
    }
    if (is_required && verb_.has_ttl()) {
      const auto ttl = parse_ttl(value);
      if (!ttl) return fail(ttl.error());
      max_wait_ = *ttl;
      return true;
    }
    if (verb_.has_id() && same_word(name, "ID")) {
      id_ = value;
      std::string wrong = find_id_error(value);
      return wrong.empty() || fail(std::move(wrong));
    }
    if (is_required && verb_.settles) return read_units("ACTUAL", value, 0, actual_);
    if (verb_.has_cost() && same_word(name, verb_.cost_word()))
      return read_units(verb_.cost_word(), value, 0, cost_);
    for (const core::OptionInfo& option : core::kLimitOptions) {
      if (!same_word(name, option.name)) continue;
      std::uint64_t number = 0;
      const bool is_read = option.is_time         ? read_time(option, value, number)
                           : option.words.empty() ? read_units(base::upper_case(option.name), value,
                                                               option.least, number, option.most)
                                                  : read_word(option, value, number);
      if (is_read) core::set_value(spec_, option.option, number);
      return is_read;
    }
    const bool is_zone = same_word(name, "ZONE");
    if (!is_zone && !same_word(name, "STARTS")) return refuse_option(name);
    (is_zone ? zone_ : starts_) = value;
    return true;
  }

  bool read_options(std::span<const std::string_view> words) {
    for (std::size_t i = 0; i < words.size(); i += 2) {
      const auto refuse = [&](const char* why) {
        return fail("the option " + base::in_quotes(words[i]) + why);
      };
      if (i + 1 == words.size()) return refuse(" lacks its value");
      for (std::size_t before = 0; before < i; before += 2) {
        if (same_word(words[before], words[i])) return refuse(" is given twice");
      }
      if (!read_option(words[i], words[i + 1])) return false;
    }
    return true;
  }

  bool read_period(std::string_view word) {
    if (const auto unit = core::calendar_unit_from(word)) {
      calendar_ = CalendarSpec{.unit = *unit};
      return true;
    }
    const auto period = core::parse_limit_period(word);
    if (!period) return fail("period: " + period.error());
    spec_.per = *period;
    return true;
  }

  // Call this after read_options().
  bool read_calendar() {
    if (!calendar_) {
      if (!zone_ && !starts_) return true;
      return fail(std::string(zone_ ? "ZONE" : "STARTS") + " " + std::string(core::kNeedsCalendar));
    }
    CalendarSpec& spec = *calendar_;
    if (zone_) spec.zone = *zone_;
    if (starts_) {
      const auto started = core::starting(spec, *starts_);
      if (!started) return fail(started.error());
      spec = *started;
    }
    const auto calendar = Calendar::make(spec);
    if (!calendar) return fail("ZONE: " + calendar.error());
    spec_.calendar = *calendar;
    return true;
  }

  std::optional<Limit> read(std::span<const std::string_view> words) {
    const auto algorithm = algorithm_from(words[0]);
    if (!algorithm) {
      fail("algorithm: there is no " + base::in_quotes(words[0]) + "; expected " +
           base::joined(core::kAllAlgorithmNames, " or "));
      return std::nullopt;
    }
    spec_.algorithm = *algorithm;
    if (!read_units("limit", words[1], 0, spec_.limit) || !read_period(words[2]) ||
        !read_options(words.subspan(3)) || !read_calendar()) {
      return std::nullopt;
    }
    const auto limit = Limit::make(spec_);
    if (!limit) {
      const std::string& why = limit.error();
      fail(why.starts_with("per ") ? "period" + why.substr(3) : why);
      return std::nullopt;
    }
    if (verb_.verb == Verb::kCharge && holds_permits(limit->algorithm())) {
      fail("a limit with permits (concurrency) cannot be charged; expected RL.LIMIT");
      return std::nullopt;
    }
    if (!verb_.required().empty() && !has_required_) {
      fail(std::string(verb_.required()) + " is missing");
      return std::nullopt;
    }
    return *limit;
  }

  CounterVerb verb_;
  std::string error_;
  LimitSpec spec_;
  std::optional<CalendarSpec> calendar_;
  std::optional<std::string_view> zone_, starts_;
  std::uint64_t cost_ = 1;
  std::uint64_t actual_ = 1;
  Duration max_wait_{0};
  std::string_view id_;
  bool has_required_ = false;
};

std::optional<std::int64_t> milliseconds(std::optional<Duration> wait) noexcept {
  if (!wait) return std::nullopt;
  // Rounded up, so that waiting this long is always enough.
  return std::chrono::ceil<std::chrono::milliseconds>(*wait).count();
}

}  // namespace

Expected<LimitArguments> parse_limit(const CounterVerb& verb,
                                     std::span<const std::string_view> words) {
  return LimitParser(verb).parse(words);
}

Expected<Duration> parse_ttl(std::string_view value) {
  const auto ttl = core::parse_period(value);
  if (!ttl) return Unexpected{"TTL: " + ttl.error()};
  if (*ttl >= kMinHold && *ttl <= kMaxHold) return *ttl;
  return Unexpected{"TTL: " + base::in_quotes(value) + " is out of range; expected 1s to 24h"};
}

std::string find_id_error(std::string_view value) {
  if (!value.empty() && value.size() <= kMaxIdBytes) return {};
  return "ID: has " + std::to_string(value.size()) + " bytes; expected 1 to " +
         std::to_string(kMaxIdBytes);
}

Expected<Duration> parse_max_wait(std::string_view value) {
  constexpr Duration kMost = std::chrono::days(1);
  if (value == "0") return Duration{0};
  const auto wait = core::parse_period(value);
  if (wait && *wait <= kMost) return *wait;
  return Unexpected{
      "MAXWAIT: " +
      (wait ? base::in_quotes(value) + " is too long; expected at most 1d" : wait.error())};
}

std::array<DecisionField, 7> decision_fields(const Decision& decision, bool numbers,
                                             bool is_ever_full) noexcept {
  const auto known = [&](std::uint64_t units) {
    return numbers ? std::optional(static_cast<std::int64_t>(units)) : std::nullopt;
  };
  const bool is_allowed = decision.allowed();
  return {{{"outcome", core::wire_outcome(decision.outcome), {}},
           {"reason", to_string(decision.reason), {}},
           {"limit", {}, known(decision.capacity)},
           {"remaining", {}, known(decision.remaining)},
           {"reset_after_ms",
            {},
            numbers && is_ever_full ? milliseconds(decision.reset_after) : std::nullopt},
           {"retry_after_ms", {}, is_allowed ? std::nullopt : milliseconds(decision.retry_after)},
           {"delay_ms", {}, is_allowed ? milliseconds(decision.delay) : std::nullopt}}};
}

}  // namespace sluice
