#pragma once

#include <string_view>

#include "rules/rule_edit.h"
#include "sluice/expected.h"

namespace sluice::server {

// Reads the body of PATCH /v1/rules/RULE: {"limits":{"user":{"limit":20,"per":"1s"}},"mode":
// "shadow"}. Errors: "'limits.user.per' is wrong; expected ...".
Expected<rules::RuleChanges> read_rule_changes(std::string_view json);

}  // namespace sluice::server
