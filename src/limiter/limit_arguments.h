#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/expected.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

// The commands that decide by any limit in their arguments, as RL.LIMIT.
namespace sluice {

// Returns whether two words are equal. The case of ASCII letters does not matter.
bool same_word(std::string_view a, std::string_view b) noexcept;

// What a command does to the counters that its other arguments name.
struct CounterVerb {
  Verb verb = Verb::kTake;
  bool settles =
      false;  // charges or gives back the difference to the ACTUAL cost; `verb` is kCharge
  bool reports = false;  // charges what the response costs; `verb` is kCharge

  constexpr std::string_view cost_word() const noexcept {
    return verb == Verb::kTakeAtMost ? "ATMOST" : "COST";
  }
  // The option that it requires; empty if none.
  constexpr std::string_view required() const noexcept {
    if (settles) return "ACTUAL";
    return verb == Verb::kTakeAtMost ? "ATMOST" : verb == Verb::kReserve ? "MAXWAIT" : "";
  }
};

struct LimitArguments {
  Limit limit;
  std::uint64_t cost = 1;
  std::uint64_t actual = 1;  // of a command that settles
  Duration max_wait{0};      // of a reservation
};

// Parses the words after the key, at least three: "algorithm limit period [option value]...".
// Errors name the argument.
Expected<LimitArguments> parse_limit(const CounterVerb& verb,
                                     std::span<const std::string_view> words);

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
// `numbers`, limit, remaining and reset_after_ms are.
std::array<DecisionField, 7> decision_fields(const Decision& decision, bool numbers) noexcept;

}  // namespace sluice
