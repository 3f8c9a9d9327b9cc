#include "limiter/limit_arguments.h"

#include <chrono>
#include <string>
#include <utility>

#include "core/calendar_text.h"
#include "core/limit_options.h"
#include "core/period.h"
#include "core/quoted.h"
#include "core/wire_outcome.h"
#include "limiter/throttle_arguments.h"

namespace sluice {
namespace {

constexpr auto kMostUnits = static_cast<std::int64_t>(kMaxUnits);

constexpr auto kUpper = [] {
  std::array<char, 256> upper{};
  for (std::size_t c = 0; c < upper.size(); ++c) {
    upper[c] = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  }
  return upper;
}();

constexpr char upper_of(char c) noexcept { return kUpper[static_cast<unsigned char>(c)]; }

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = upper_of(c);
  return out;
}

// Reads the words of one command. A function that fails leaves the error.
class LimitParser {
 public:
  explicit LimitParser(const CounterVerb& verb) : verb_(verb) {}

  Expected<LimitArguments> parse(std::span<const std::string_view> words) {
    const auto limit = read(words);
    if (!limit) return Unexpected{std::move(error_)};
    return LimitArguments{.limit = *limit, .cost = cost_, .actual = actual_, .max_wait = max_wait_};
  }

 private:
  bool fail(std::string why) {
    error_ = std::move(why);
    return false;
  }
  bool read_units(std::string_view name, std::string_view value, std::uint64_t least,
                  std::uint64_t& out) {
    const auto number = parse_number(value, {name, static_cast<std::int64_t>(least), kMostUnits});
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
    return fail(upper(option.name) + ": there is no " + core::in_quotes(value) + "; expected " +
                core::list_of(option.words, "or"));
  }

  bool refuse_option(std::string_view name) {
    std::string names;
    for (const core::OptionInfo& option : core::kLimitOptions) {
      names.append(names.empty() ? "" : ", ").append(upper(option.name));
    }
    return fail("there is no option " + core::in_quotes(name) + "; expected " + names +
                ", ZONE, STARTS or " + std::string(verb_.cost_word()) +
                (verb_.verb == Verb::kReserve ? " or MAXWAIT"
                 : verb_.settles              ? " or ACTUAL"
                                              : ""));
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
    if (is_required && verb_.settles) return read_units("ACTUAL", value, 0, actual_);
    if (same_word(name, verb_.cost_word())) return read_units(verb_.cost_word(), value, 0, cost_);
    for (const core::OptionInfo& option : core::kLimitOptions) {
      if (!same_word(name, option.name)) continue;
      std::uint64_t number = 0;
      const bool is_read = option.words.empty()
                               ? read_units(upper(option.name), value, option.least, number)
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
        return fail("the option " + core::in_quotes(words[i]) + why);
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
    const auto period = core::parse_period(word);
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
      fail("algorithm: there is no " + core::in_quotes(words[0]) + "; expected " +
           core::list_of(core::kAllAlgorithmNames, "or"));
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
  bool has_required_ = false;
};

std::optional<std::int64_t> milliseconds(std::optional<Duration> wait) noexcept {
  if (!wait) return std::nullopt;
  // Rounded up, so that waiting this long is always enough.
  return std::chrono::ceil<std::chrono::milliseconds>(*wait).count();
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (upper_of(a[i]) != upper_of(b[i])) return false;
  }
  return true;
}

Expected<LimitArguments> parse_limit(const CounterVerb& verb,
                                     std::span<const std::string_view> words) {
  return LimitParser(verb).parse(words);
}

Expected<Duration> parse_max_wait(std::string_view value) {
  constexpr Duration kMost = std::chrono::days(1);
  if (value == "0") return Duration{0};
  const auto wait = core::parse_period(value);
  if (wait && *wait <= kMost) return *wait;
  return Unexpected{
      "MAXWAIT: " +
      (wait ? core::in_quotes(value) + " is too long; expected at most 1d" : wait.error())};
}

std::array<DecisionField, 7> decision_fields(const Decision& decision, bool numbers) noexcept {
  const auto known = [&](std::uint32_t units) {
    return numbers ? std::optional<std::int64_t>(units) : std::nullopt;
  };
  const bool is_allowed = decision.allowed();
  return {{{"outcome", core::wire_outcome(decision.outcome), {}},
           {"reason", to_string(decision.reason), {}},
           {"limit", {}, known(decision.capacity)},
           {"remaining", {}, known(decision.remaining)},
           {"reset_after_ms", {}, numbers ? milliseconds(decision.reset_after) : std::nullopt},
           {"retry_after_ms", {}, is_allowed ? std::nullopt : milliseconds(decision.retry_after)},
           {"delay_ms", {}, is_allowed ? milliseconds(decision.delay) : std::nullopt}}};
}

}  // namespace sluice
