#include "server/decide/rejection.h"

#include "limiter/http_field_text.h"
#include "limiter/reason_report.h"
#include "rules/policy_name.h"
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

}  // namespace

int http_status(const RuleAnswer& answer) noexcept {
  const Decision& decision = answer.decision;
  if (decision.allowed()) return 200;
  const bool by_rule = decision.reason != Reason::kInvalid && answer.rule != nullptr;
  return by_rule ? answer.rule->reject.status : report_of(decision.reason).http;
}

Rejection rejection_of(const RuleAnswer& answer, std::string& text) {
  const bool invalid = answer.decision.reason == Reason::kInvalid;
  if (!invalid && answer.rule != nullptr && !answer.rule->reject.body.empty()) {
    return {answer.rule->reject.content_type, answer.rule->reject.body};
  }
  const ReasonReport& report = report_of(answer.decision.reason);
  TextBuffer members;
  if (!invalid) put_violated(members, answer);
  text.clear();
  append_problem(text,
                 {.status = http_status(answer),
                  .detail = answer.mistake.empty() ? report.detail : answer.mistake,
                  .title = report.title,
                  .type = report.type},
                 members.view());
  return {kProblemType, text};
}

}  // namespace sluice::server
