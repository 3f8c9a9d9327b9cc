#pragma once

#include "limiter/text_buffer.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// Writes an answer of POST /v1/check: one JSON object (docs/http.md). `with_taken`: of
// take_at_most.
void put_check_answer(TextBuffer& out, const RuleAnswer& answer, bool with_taken = false);

}  // namespace sluice::server
