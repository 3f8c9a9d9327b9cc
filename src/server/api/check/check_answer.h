#pragma once

#include <string_view>

#include "limiter/text_buffer.h"
#include "sluice/http_fields.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// Writes an answer of POST /v1/check: one JSON object (docs/http.md). `with_taken`: of
// take_at_most.
void put_check_answer(TextBuffer& out, const RuleAnswer& answer, bool with_taken = false);

// The same for a limit of the request itself, which has no rule. `permit` may be empty.
void put_limit_answer(TextBuffer& out, const NamedDecision& limit, std::string_view permit,
                      bool with_taken);

}  // namespace sluice::server
