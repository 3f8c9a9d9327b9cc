#pragma once

#include <string>
#include <string_view>

#include "sluice/rule_answer.h"

namespace sluice::server {

// Returns the HTTP status of an answer: 200 if it allows, 400 if the request is invalid, or else
// the status of the deciding rule's `reject`. Without a rule it is that of the reason.
int http_status(const RuleAnswer& answer) noexcept;

// The body of a denied request: that of the rule, or application/problem+json.
struct Rejection {
  std::string_view content_type;
  std::string_view body;  // of the rule, or of `text`
};
// Overwrites `text` if the rule has no body or the request is invalid.
Rejection rejection_of(const RuleAnswer& answer, std::string& text);

}  // namespace sluice::server
