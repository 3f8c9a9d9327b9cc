#include "server/decide/rejection.h"

#include "server/decide/answer_fields.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

constexpr std::string_view kQuotaExceeded =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
constexpr std::string_view kReducedCapacity =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

// What is told for a reason: the one table of them.
struct Telling {
  bool invalid = false;  // the request is at fault, whatever the rule says
  std::string_view type = {};
  std::string_view title = {};
  std::string_view detail = {};
};

Telling telling_of(Reason reason) noexcept {
  switch (reason) {
    case Reason::kOk:
    case Reason::kShadow:
    case Reason::kLimited:
    case Reason::kDenyCache:
      return {.type = kQuotaExceeded,
              .title = "Quota exceeded",
              .detail = "The request exceeds what these policies allow for now."};
    case Reason::kNever:
      return {.type = kQuotaExceeded,
              .title = "Quota exceeded",
              .detail = "The request costs more than these policies ever allow at once."};
    case Reason::kFallback:
    case Reason::kStoreTimeout:
    case Reason::kStoreError:
    case Reason::kForeignValue:
      return {.type = kReducedCapacity,
              .title = "Temporarily reduced capacity",
              .detail = "It could not be decided whether the request is within its limits."};
    case Reason::kMissing: return {.detail = "The request lacks what these policies count it by."};
    case Reason::kInvalid: break;
  }
  return {.invalid = true,
          .detail =
              "The request cannot be decided: over 64 limits apply to it, or its cost is out "
              "of range."};
}

// The names of the limits that denied it.
void put_violated(TextBuffer& out, const RuleAnswer& answer) {
  out.put("\"violated-policies\":[");
  bool first = true;
  for (std::size_t i = 0; i < answer.limits.size(); ++i) {
    const LimitAnswer& limit = answer.limits[i];
    if (limit.rule->mode == RuleMode::kShadow || limit.decision.allowed()) continue;
    if (!first) out.put(',');
    first = false;
    put_policy_name(out, answer.limits, i);
  }
  out.put(']');
}

}  // namespace

int http_status(const RuleAnswer& answer) noexcept {
  if (answer.decision.allowed()) return 200;
  if (telling_of(answer.decision.reason).invalid) return 400;
  return answer.rule != nullptr ? answer.rule->reject.status : Reject{}.status;
}

Rejection rejection_of(const RuleAnswer& answer, std::string& text) {
  const Telling telling = telling_of(answer.decision.reason);
  if (!telling.invalid && answer.rule != nullptr && !answer.rule->reject.body.empty()) {
    return {answer.rule->reject.content_type, answer.rule->reject.body};
  }
  TextBuffer members;
  if (!telling.invalid) put_violated(members, answer);
  text.clear();
  append_problem(text,
                 {.status = http_status(answer),
                  .detail = telling.detail,
                  .title = telling.title,
                  .type = telling.type},
                 members.view());
  return {kProblemType, text};
}

}  // namespace sluice::server
