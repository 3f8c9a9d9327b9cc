#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/http_fields.h"
#include "sluice/reject.h"
#include "sluice/rule_limit.h"
#include "sluice/store.h"

namespace sluice {

// Whether a rule denies requests, or only counts and reports what it would deny.
enum class RuleMode : std::uint8_t { kEnforce, kShadow };

// What a rule does with the requests that it matches.
enum class RuleAction : std::uint8_t {
  kLimit,  // its limits decide
  kAllow,  // no further limit applies, and no rule after it is tried
  kDeny,   // it denies them with Reason::kDenyRule, and nothing is counted
};

// One rule of a file. A plain value that owns its texts; a RuleSet holds its rules in file order.
struct Rule {
  std::string name;
  std::vector<RuleLimit> limits;  // none unless the action is kLimit
  RuleMode mode = RuleMode::kEnforce;
  FailurePolicy on_store_error = FailurePolicy::kAllow;
  // The most counters that the rule may create in each second; see NewKeyLimit. Absent: no maximum.
  std::optional<std::uint32_t> max_new_keys = {};
  bool continues = false;  // `continue: true`: later rules can match too
  Reject reject;
  HeaderFields headers = HeaderFields::kBoth;
  std::string domain = {};  // the domain of its file
  std::string tag = {};     // the template of Charge::tag as written; empty: none
  // The plans of its file in the order of their names, if it has a `plan`; else none.
  std::vector<std::string> plans = {};
  std::string default_plan = {};
  std::string plan_from = {};  // the template of the plan's name as written; may be empty
  RuleAction action = RuleAction::kLimit;
};

}  // namespace sluice
