#pragma once

#include <string>
#include <vector>

#include "server/protocol/http/message.h"
#include "sluice/clock.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// Returns the HTTP status of an answer: 200 if it allows, 400 if the request is invalid, or else
// the status of the deciding rule's `reject`. Without a rule it is that of the reason.
int http_status(const RuleAnswer& answer) noexcept;

// Gives a denied request its body: that of the rule, or application/problem+json. The clock is for
// the numbers in it.
void put_rejection(const RuleAnswer& answer, http::Response& response,
                   const Clock& clock = SystemClock::instance());

// Writes what /v1/auth answers: the status, the fields, and the body of the rule, or why a request
// is invalid. A denial without a body in its rule has none: gateways send their own.
void put_gateway_answer(const RuleAnswer& answer, RuleHttpFields& fields, http::Response& response,
                        const Clock& clock = SystemClock::instance());

// Appends the headers that rules add: "Name: value\r\n" each. Those of `reject` if the rule denies,
// those of `degrade` if the request is allowed, none if it is invalid.
void append_rule_headers(const RuleAnswer& answer, std::string& fields,
                         const Clock& clock = SystemClock::instance());

// Returns the headers of `degrade` of an answer's rules. Of rules that set the same header, the
// first one counts. Allocates nothing unless a rule is degraded.
std::vector<const RejectHeader*> degrade_headers(const RuleAnswer& answer);

}  // namespace sluice::server
