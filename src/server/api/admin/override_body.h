#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/expected.h"
#include "sluice/overrides.h"

namespace sluice::server {

// The body of PUT /v1/overrides/RULE/LIMIT.
struct OverrideBody {
  Attributes attributes;
  std::vector<std::string> names;  // of the attributes
  Override given;
};

// A line of POST /v1/overrides, which names its counter, or a rule, a limit and attributes.
struct OverrideLine {
  std::string counter, rule, limit_name;
  OverrideBody body;
  std::string problem;  // what is wrong with the override itself: "WHAT; EXPECTED"
};

// Reads {"attributes":{...}} and one of "limit", "plan", "blocked" and "unlimited". Errors: "WHAT;
// EXPECTED".
Expected<OverrideBody> read_override_body(std::string_view json, Instant now);

// Reads the same, and "counter", or "rule" and "limit_name". The override may have ended.
Expected<OverrideLine> read_override_line(std::string_view json);

}  // namespace sluice::server
