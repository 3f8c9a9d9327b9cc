#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/quoted.h"
#include "sluice/decision.h"
#include "sluice/expected.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

// The commands that decide by a GCRA limit in their arguments, as redis-cell's CL.THROTTLE.
namespace sluice {

// The bounds of a number, and its name in errors.
struct NumberArgument {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};
// How a command writes its arguments and its reply.
enum class ThrottleForm : std::uint8_t {
  kCell,  // CL.THROTTLE of redis-cell: seconds and a quantity; begins with limited
  // THROTTLE of throttlecrab: `max_burst` is the limit, and a quantity is not negative; begins with
  // allowed; reset, then retry, both cut to whole seconds.
  kCrab,
  kGcra,  // GCRA of Redis: seconds with a fraction, and `TOKENS count`
};

struct ThrottleArguments {
  std::uint64_t burst = 0;  // units after the first
  std::uint64_t count = 0;  // units per period
  Duration period{0};
  std::int64_t quantity = 1;  // 0: a peek; below 0: a refund

  // Errors: a bucket that refills too slowly, with the names of the arguments.
  Expected<Limit> limit(ThrottleForm form) const;
  Verb verb() const noexcept;
  // No limit contains more than kMaxUnits.
  std::uint64_t cost() const noexcept;
};

// Reads the words after the key. Errors name the argument.
Expected<ThrottleArguments> parse_throttle(ThrottleForm form,
                                           std::span<const std::string_view> words);

// Returns the five integers of the reply to `asked`, whose limit is `limit`. Seconds are rounded
// up, so that a limited client never reads 0; except those of kCrab, which are as throttlecrab's.
std::array<std::int64_t, 5> throttle_reply(ThrottleForm form, const ThrottleArguments& asked,
                                           const Limit& limit, const Decision& decision) noexcept;

// Reads a whole number of a few digits without a sign or leading zeros, the usual case. Returns
// nothing for any other text.
constexpr std::optional<std::int64_t> small_number(std::string_view text) noexcept {
  constexpr std::size_t kMostDigits = 9;
  if (text.empty() || text.size() > kMostDigits || text.front() == '0') return {};
  std::int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + (c - '0');
  }
  return number;
}

// Reads a whole number like Redis: no sign except '-', no leading zeros, no spaces. Returns nothing
// if the text is not such a number or needs more than 64 bits.
inline std::optional<std::int64_t> whole_number(std::string_view text) noexcept {
  if (const auto small = small_number(text)) return small;
  const bool negative = !text.empty() && text.front() == '-';
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || (digits.front() == '0' && (negative || digits.size() > 1))) return {};
  if (digits.front() < '0' || digits.front() > '9') return {};
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return {};
  return number;
}

// Returns the error of a text that is not such a number: its name, the text, and what is expected.
Unexpected<std::string> wrong_number(std::string_view text, const NumberArgument& argument);

inline Expected<std::int64_t> parse_number(std::string_view text, const NumberArgument& argument) {
  const auto number = whole_number(text);
  if (number && *number >= argument.least && *number <= argument.most) return *number;
  return wrong_number(text, argument);
}

// The commands that decide by any limit in their arguments, as RL.LIMIT.

using base::same_word;

// What a command does to the counters that its other arguments name.
struct CounterVerb {
  Verb verb = Verb::kTake;
  bool settles =
      false;  // charges or gives back the difference to the ACTUAL cost; `verb` is kCharge
  bool reports = false;      // charges what the response costs; `verb` is kCharge
  bool may_have_id = false;  // with an ID, budgets count the request once

  // Whether it has an option ID, of budgets; and one TTL.
  constexpr bool has_id() const noexcept { return may_have_id || settles || needs_id(verb); }
  constexpr bool has_ttl() const noexcept { return verb == Verb::kHold || verb == Verb::kExtend; }
  // Whether it has a cost.
  constexpr bool has_cost() const noexcept {
    return verb != Verb::kExtend && verb != Verb::kCancel;
  }
  constexpr std::string_view cost_word() const noexcept {
    return verb == Verb::kTakeAtMost ? "ATMOST" : "COST";
  }
  // The option that it requires; empty if none.
  constexpr std::string_view required() const noexcept {
    if (settles) return "ACTUAL";
    if (has_ttl()) return "TTL";
    if (verb == Verb::kCancel) return "ID";
    return verb == Verb::kTakeAtMost ? "ATMOST" : verb == Verb::kReserve ? "MAXWAIT" : "";
  }
};

struct LimitArguments {
  Limit limit;
  std::uint64_t cost = 1;
  std::uint64_t actual = 1;  // of a command that settles
  Duration max_wait{0};      // of a reservation; of a hold and an extension how long they last
  std::string_view id = {};  // of a budget
};

// Parses the words after the key, at least three: "algorithm limit period [option value]...".
// Errors name the argument.
Expected<LimitArguments> parse_limit(const CounterVerb& verb,
                                     std::span<const std::string_view> words);

// Parses the value of TTL, such as "30s": 1s to 24h. Errors name it.
Expected<Duration> parse_ttl(std::string_view value);

// Returns what is wrong with the value of ID, or an empty text.
std::string find_id_error(std::string_view value);

// Parses the value of MAXWAIT, such as "500ms": at most a day. Errors name it.
Expected<Duration> parse_max_wait(std::string_view value);

// A pair of a reply: its value is a text, a number or, if absent, null.
struct DecisionField {
  std::string_view name;
  std::string_view text;
  std::optional<std::int64_t> number;
};

// Returns the pairs of a decision: outcome, reason, limit, remaining, reset_after_ms,
// retry_after_ms and delay_ms. Waits are milliseconds, rounded up. Unknown values are null; without
// `numbers`, limit, remaining and reset_after_ms are; without `is_ever_full`, reset_after_ms is.
std::array<DecisionField, 7> decision_fields(const Decision& decision, bool numbers,
                                             bool is_ever_full) noexcept;

}  // namespace sluice
