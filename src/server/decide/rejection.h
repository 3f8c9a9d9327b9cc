#pragma once

#include <string>
#include <string_view>

#include "sluice/rule_answer.h"

namespace sluice::server {

// The HTTP status of an answer: 200 for an allowed one; of a denied one 400 where the request was
// invalid, else what the deciding rule's `reject` says.
int http_status(const RuleAnswer& answer) noexcept;

// What a denied request is told: the rule's own body, or application/problem+json.
struct Rejection {
  std::string_view content_type;
  std::string_view body;  // of the rule, or of `text`
};
// `text` is overwritten where the rule has no body of its own, or the request was invalid.
Rejection rejection_of(const RuleAnswer& answer, std::string& text);

}  // namespace sluice::server
