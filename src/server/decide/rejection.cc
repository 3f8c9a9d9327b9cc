#include "server/decide/rejection.h"

#include <strings.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "limiter/http_fields.h"
#include "limiter/reason_report.h"
#include "rules/rule_decider.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

// Writes the names of the limits that denied the request.
void put_violated(TextBuffer& out, const RuleAnswer& answer) {
  out.put("\"violated-policies\":[");
  bool first = true;
  for (std::size_t i = 0; i < answer.limits.size(); ++i) {
    const LimitAnswer& limit = answer.limits[i];
    if (limit.rule->mode == RuleMode::kShadow || limit.decision.allowed()) continue;
    if (!first) out.put(',');
    first = false;
    put_policy_name(out, limit.limit->name, group_of(answer.limits, i));
  }
  out.put(']');
}

// Returns what the rule answers to the request, or null if no rule does: a mistake of the client is
// no denial by a limit.
const Reject* reject_of(const RuleAnswer& answer) noexcept {
  const Reason reason = answer.decision.reason;
  const bool by_rule = answer.rule != nullptr && reason != Reason::kInvalid &&
                       reason != Reason::kConflict && reason != Reason::kGone;
  return by_rule ? &answer.rule->reject : nullptr;
}

// Milliseconds, rounded up, so that waiting this long is always enough.
void add_delay(const Decision& decision, http::Response& response) {
  const Duration delay = decision.delay.value_or(Duration{0});
  if (delay <= Duration{0}) return;
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(delay);
  response.add("X-Sluice-Delay", std::to_string(rounded.count()));
}

}  // namespace

int http_status(const RuleAnswer& answer) noexcept {
  const Decision& decision = answer.decision;
  if (decision.allowed()) return 200;
  const Reject* reject = reject_of(answer);
  return reject != nullptr ? reject->status : report_of(decision.reason).http;
}

void put_rejection(const RuleAnswer& answer, http::Response& response, const Clock& clock) {
  std::string& text = response.text;
  const Reject* reject = reject_of(answer);
  if (reject != nullptr && !reject->body.empty()) {
    response.content_type = reject->content_type;
    response.body = reject->body;
    if (reject->parts.empty()) return;
    text.clear();
    append_reject(reject->body, reject->parts, answer.decision, clock.now(), text);
    response.body = text;
    return;
  }
  const bool invalid = answer.decision.reason == Reason::kInvalid;
  const ReasonReport& report = report_of(answer.decision.reason);
  TextBuffer members;
  const bool has_limits = !invalid && answer.decision.reason != Reason::kDenyRule;
  if (has_limits) put_violated(members, answer);
  text.clear();
  append_problem(text,
                 {.status = http_status(answer),
                  .detail = answer.mistake.empty() ? report.detail : answer.mistake,
                  .title = report.title,
                  .type = report.type},
                 members.view());
  response.content_type = kProblemType;
  response.body = text;
}

std::vector<const RejectHeader*> degrade_headers(const RuleAnswer& answer) {
  std::vector<const RejectHeader*> out;
  for (const RuleAnswer::Matched& matched : answer.matched) {
    if (!matched.degraded) continue;
    for (const RejectHeader& header : matched.rule->degrade.headers) {
      const auto is_same = [&](const RejectHeader* other) {
        return strcasecmp(other->name.c_str(), header.name.c_str()) == 0;
      };
      if (std::ranges::none_of(out, is_same)) out.push_back(&header);
    }
  }
  return out;
}

void append_rule_headers(const RuleAnswer& answer, std::string& fields, const Clock& clock) {
  for (const RejectHeader* header : degrade_headers(answer)) {
    fields.append(header->name).append(": ").append(header->value).append("\r\n");
  }
  const Reject* reject = answer.decision.allowed() ? nullptr : reject_of(answer);
  if (reject == nullptr || reject->headers.empty()) return;
  const Instant now = clock.now();
  for (const RejectHeader& header : reject->headers) {
    const std::size_t before = fields.size();
    fields.append(header.name).append(": ");
    if (append_reject(header.value, header.parts, answer.decision, now, fields)) {
      fields.append("\r\n");
    } else {
      fields.resize(before);
    }
  }
}

void put_gateway_answer(const RuleAnswer& answer, RuleHttpFields& fields, http::Response& response,
                        const Clock& clock) {
  response.fields.append(fields.lines(answer));
  response.status = http_status(answer);
  append_rule_headers(answer, response.fields, clock);
  if (answer.decision.allowed()) return add_delay(answer.decision, response);
  const bool is_invalid = answer.decision.reason == Reason::kInvalid;
  if (is_invalid || (answer.rule != nullptr && !answer.rule->reject.body.empty())) {
    put_rejection(answer, response, clock);
  }
}

}  // namespace sluice::server
