#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::base {
class JsonWriter;
}  // namespace sluice::base

namespace sluice::rules {

// One difference between two sets of rules.
struct RuleDifference {
  enum class Kind : std::uint8_t { kAdded, kRemoved, kChanged };

  Kind kind = Kind::kChanged;
  std::string rule;           // empty: the order of the rules
  std::string limit;          // empty: a difference of the rule
  std::string key;            // "per", "block.for"; empty: the whole rule or limit
  std::string before, after;  // the values of the key; empty: absent

  friend bool operator==(const RuleDifference&, const RuleDifference&) = default;
};

// Compares valid rules by what they mean: rules and limits by their names, whichever file they are
// in; with the defaults, the domain and the numbers of plans; without comments and spelling
// ("60s" is "1m"). In the order of `after`; those that were removed come last.
std::vector<RuleDifference> compare_rules(std::span<const RuleText> before,
                                          std::span<const RuleText> after);

// Writes an object: {"change":"changed","rule":"api","limit":"user","key":"per","old":"1m",
// "new":"1h"}. Members that are empty are left out.
void write_json(const RuleDifference& one, base::JsonWriter& json);

// Other values for one rule, or for a plan or a model, which have only numbers.
struct RuleChanges {
  struct Number {
    std::string limit;  // its name; empty for a price
    // limit, per, lease or burst, or the name of a price; "prices.MODEL.NAME" of a limit in a plan
    std::string key;
    std::string value;  // of letters and digits
  };
  std::vector<Number> numbers;
  std::optional<std::string> mode;
  std::optional<std::string> on_store_error = {};
};

// Returns the rules with another `mode` or `on_store_error` of some: `change` may set these two
// members of a rule, and no other. Reads no text and no list; the warnings stay as they are.
RuleSet change_rules(const RuleSet& rules, const std::function<void(Rule& rule)>& change);

// Returns the rules `after` with the budgets that were in their rows in `before` and are not any
// more, for as long as an id can be known there. They admit nothing; what is about an id that they
// know goes to them, and not to another budget of the row. Only rows of which a budget stays.
RuleSet keep_removed(const RuleSet& before, const RuleSet& after, Instant now);
// Returns a rule of the set without such budgets.
Rule without_removed(const RuleSet& rules, const Rule& rule);

// A file with its new text.
struct RuleEdit {
  std::size_t file = 0;
  std::string text;
};

struct EditError {
  // What is unknown: nothing, a limit or a price, or the rule, plan or model that has them.
  enum class Unknown : std::uint8_t { kNone, kPart, kWhole };

  Unknown unknown = Unknown::kNone;
  std::string message;  // "WHAT; EXPECTED"
};

// Writes the values into the text of the file that has the rule. Everything else stays as it is,
// with comments and the order. A key that the rule or limit lacks gets a place after its `name` or
// its `limit`. Does not check whether the rules are valid afterwards.
//
// Errors: a name is unknown, or the text cannot be changed so that only these values change: the
// numbers come from plans, or an anchor shares the value with another place.
Expected<RuleEdit, EditError> edit_rule(std::span<const RuleText> files, std::string_view rule,
                                        const RuleChanges& changes);
// What the limits of a file share, in words.
struct Shared {
  std::string_view key;    // of the file
  std::string_view whole;  // one of them
  std::string_view part;   // what it has by name
};
inline constexpr Shared kSharedPlans{"plans", "plan", "limit"},
    kSharedPrices{"prices", "model", "price"};

// The same for the numbers of limits in a plan, or for the prices of a model. They belong to a
// file: those of several files are changed in the only one that has the limits or prices. Errors:
// as above, or several files have them.
Expected<RuleEdit, EditError> edit_shared(std::span<const RuleText> files, const Shared& kind,
                                          std::string_view name, const RuleChanges& changes);

}  // namespace sluice::rules
