#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rules/attribute_table.h"
#include "rules/rule_set.h"
#include "sluice/overrides.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// Names requests for RememberedRequests: takes of one unit with the same name have the same limits
// and counters. The name consists of the rules that match and of the attributes in their keys.
//
// Thread-safety: one thread. Ownership: shares the rules. Cost: that of matching, and of copying
// the attributes.
class RequestNames {
 public:
  static constexpr std::size_t kLongest = 1024;

  // `overrides` are those of the decisions; null: none. With overrides no request has a name.
  explicit RequestNames(const RuleSet& rules, const Overrides* overrides = nullptr);

  // The name, valid until the next call. Empty: the request must be decided without one. No rule
  // matches, more than keys depends on its attributes (costs, plans, responses), or the name would
  // be longer than kLongest.
  std::string_view name(const AttributeSource& request);

 private:
  void append(std::size_t rule, const std::optional<std::string_view>& value);

  const RuleSet rules_;
  // By the index of the rule: the attributes in its keys. Absent: its requests have no names.
  std::vector<std::optional<std::vector<std::uint32_t>>> attributes_;
  AttributeValues values_;
  std::vector<char> buffer_;
  std::size_t size_ = 0;  // of the name at the front of the buffer
};

}  // namespace sluice::rules
