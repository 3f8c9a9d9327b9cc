#pragma once

#include "limiter/text_buffer.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// Writes an answer of POST /v1/check: one JSON object (docs/http.md).
void put_check_answer(TextBuffer& out, const RuleAnswer& answer);

}  // namespace sluice::server
