#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rules/attributes.h"
#include "rules/cost_template.h"
#include "rules/key_template.h"
#include "rules/list_files.h"
#include "rules/networks.h"
#include "rules/pattern.h"
#include "rules/plans.h"
#include "sluice/new_key_limit.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// An attribute that must match at least one of several patterns, networks and lists, or none of
// them.
struct Condition {
  std::uint32_t attribute = 0;
  bool negated = false;
  bool has_networks = false;
  std::uint32_t expressions = 0;  // in `any_of`
  std::vector<Pattern> any_of;
  NetworkSet own_networks;
  std::vector<std::shared_ptr<const NetworkSet>> networks;
  std::vector<std::shared_ptr<const TextSet>> texts;

  // Does not hold if the expressions of a request would read too much, which `values` then knows.
  bool holds(AttributeValues& values) const {
    const std::optional<std::string_view>& value = values.get(attribute);
    if (expressions > 0 && value && !values.may_read(attribute, expressions)) return false;
    return matches(value) != negated;
  }

 private:
  bool matches(const std::optional<std::string_view>& value) const;
  bool matches_network(std::string_view value) const;
};

struct CompiledLimit {
  std::string prefix;  // of the counters' keys: "domain|rule|limit"
  std::uint32_t id;    // Charge::limit_id: a hash of the prefix
  KeyTemplate key;
  CostTemplate cost;
  std::optional<ResponseCount> count = {};
};

// The compiled parts of the Rule with the same index.
struct CompiledRule {
  std::vector<Condition> conditions;
  std::vector<CompiledLimit> limits;
  KeyTemplate tag;                             // of all counters of the rule; empty: no tag
  std::unique_ptr<NewKeyLimit> new_keys = {};  // null: no maximum
  PlanChoice plan = {};                        // if Rule::plans is not empty

  bool matches(AttributeValues& values) const;
};

// Whether the rules after this one are tried for a request that it matches.
inline bool lets_others_match(const Rule& rule) noexcept {
  return rule.continues || (rule.action == RuleAction::kDeny && rule.mode == RuleMode::kShadow);
}

// Returns "domain|rule|limit", escaped.
std::string counter_prefix(std::string_view domain, std::string_view rule, std::string_view limit);

// Returns the Charge::limit_id of a limit with this name. It differs between processes.
std::uint32_t limit_id_of(std::string_view name) noexcept;

}  // namespace sluice::rules

namespace sluice {

// Filled by a loader, then constant.
class RuleSet::Impl {
 public:
  std::string domain;
  std::vector<Rule> rules;
  std::vector<RuleError> warnings;
  std::vector<rules::CompiledRule> compiled;  // by index of the rule
  rules::AttributeTable attributes;
  std::unordered_map<std::string_view, std::size_t> by_name;  // views into `rules`
};

// Opens a RuleSet for this library.
struct rules::Access {
  static const RuleSet::Impl& impl(const RuleSet& rules) noexcept { return *rules.impl_; }
};

}  // namespace sluice
