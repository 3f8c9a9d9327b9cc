#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/http_fields.h"
#include "sluice/rule_limit.h"
#include "sluice/store.h"

namespace sluice {

// Whether a rule denies requests, or only counts and reports what it would deny.
enum class RuleMode : std::uint8_t { kEnforce, kShadow };

// The HTTP response of a rule that denies. A plain value.
struct Reject {
  int status = 429;
  std::string body;               // empty: the default body of the front end
  std::string content_type = {};  // of `body`, in printable ASCII; empty without a body
};

// One rule of a file. A plain value that owns its texts; a RuleSet holds its rules in file order.
struct Rule {
  std::string name;
  std::vector<RuleLimit> limits;
  RuleMode mode = RuleMode::kEnforce;
  FailurePolicy on_store_error = FailurePolicy::kAllow;
  // The most counters that the rule may create in each second; see NewKeyLimit. Absent: no maximum.
  std::optional<std::uint32_t> max_new_keys = {};
  bool continues = false;  // `continue: true`: later rules can match too
  Reject reject;
  HeaderFields headers = HeaderFields::kBoth;
  std::string domain = {};  // the domain of its file
  std::string tag = {};     // the template of Charge::tag as written; empty: none
};

}  // namespace sluice
