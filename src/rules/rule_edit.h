#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// Other values for one rule.
struct RuleChanges {
  struct Number {
    std::string limit;  // its name
    std::string key;    // limit, per, lease or burst
    std::string value;  // of letters and digits
  };
  std::vector<Number> numbers;
  std::optional<std::string> mode;
};

// A file with its new text.
struct RuleEdit {
  std::size_t file = 0;
  std::string text;
};

struct EditError {
  bool is_unknown = false;  // no rule, or no limit, has that name
  std::string message;      // "WHAT; EXPECTED"
};

// Writes the values into the text of the file that has the rule. Everything else stays as it is,
// with comments and the order. A key that the rule or limit lacks gets a place after its `name` or
// its `limit`. Does not check whether the rules are valid afterwards.
//
// Errors: a name is unknown, or the text cannot be changed so that only these values change: the
// numbers come from plans, or an anchor shares the value with another place.
Expected<RuleEdit, EditError> edit_rule(std::span<const RuleText> files, std::string_view rule,
                                        const RuleChanges& changes);

}  // namespace sluice::rules
