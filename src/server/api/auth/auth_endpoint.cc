#include "server/api/auth/auth_endpoint.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rules/cost_template.h"
#include "server/decide/rejection.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/problem.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server {
namespace {

constexpr std::string_view kDenyBy403 = "deny=403";

constexpr std::string_view kMissing =
    "X-Original-URI and X-Forwarded-Uri are both missing; expected a gateway that sets one of them";
constexpr std::string_view kUnclear =
    "X-Original-URI and X-Forwarded-Uri are both given, or one of the fields that describe the "
    "request is given twice; expected a gateway that sets X-Original-URI and X-Original-Method and "
    "clears the others, or sets X-Forwarded-Uri and X-Forwarded-Method and clears the others";
constexpr std::string_view kWrongQuery =
    "unknown query of /v1/auth; expected none, or deny=403 for denials with this status";

constexpr std::string_view kWrongCost =
    "X-Sluice-Cost is given twice or is no number of units; expected one whole number from 0 to "
    "4294967295";

constexpr std::string_view kWrongReport =
    "unknown query of /v1/report; expected status=NUMBER, the status of the response, and nothing "
    "else";
constexpr std::string_view kStatusIs = "status=";

// The response that a gateway reports.
class ReportedFields final : public AttributeSource {
 public:
  ReportedFields(std::string_view status, std::span<const http::Field> fields)
      : status_(status), fields_(fields) {}

  std::optional<std::string_view> find(std::string_view name) const override {
    constexpr std::string_view kHeader = "header.", kPrefix = "x-sluice-response-";
    if (name == "status") return status_;
    if (!name.starts_with(kHeader)) return std::nullopt;
    name.remove_prefix(kHeader.size());
    for (const http::Field& field : fields_) {
      if (field.name.size() != kPrefix.size() + name.size()) continue;
      const http::Field prefix{field.name.substr(0, kPrefix.size()), {}};
      const http::Field rest{field.name.substr(kPrefix.size()), {}};
      if (has_name(prefix, kPrefix) && has_name(rest, name)) return field.value;
    }
    return std::nullopt;
  }

 private:
  std::string_view status_;
  std::span<const http::Field> fields_;
};

// Returns the cost that the field gives, 1 without it, or nothing if the field is wrong. Gateways
// forward the fields of clients, so only limits that ask for it have this cost.
std::optional<RequestCosts> costs_of(const http::Request& request) {
  RequestCosts costs;
  costs.only_if_wanted = true;
  bool given = false;
  for (const http::Field& field : request.fields) {
    if (!has_name(field, "x-sluice-cost") || field.value.empty()) continue;
    const auto units = rules::units_from(field.value);
    if (given || !units) return std::nullopt;
    given = true;
    costs.units = *units;
  }
  return costs;
}

// Milliseconds, rounded up, so that waiting this long is always enough.
void add_delay(const Decision& decision, http::Response& response) {
  const Duration delay = decision.delay.value_or(Duration{0});
  if (delay <= Duration{0}) return;
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(delay);
  response.add("X-Sluice-Delay", std::to_string(rounded.count()));
}

}  // namespace

// Reads the description of the request. Returns nothing if it is wrong, which is the response then.
std::optional<RequestCosts> AuthEndpoint::read(const http::Request& request,
                                               http::Response& response) {
  const auto fail = [&](std::string_view problem) {
    answer_problem(response, {400, problem});
    return std::nullopt;
  };
  const Description description = attributes_.begin(request);
  if (description == Description::kMissing) return fail(kMissing);
  if (description == Description::kUnclear) return fail(kUnclear);
  std::optional<RequestCosts> costs{std::in_place};
  if (trusted_.contains(request.peer)) costs = costs_of(request);
  return costs ? costs : fail(kWrongCost);
}

void AuthEndpoint::report(const http::Request& request, http::Response& response) {
  std::string_view status = split_target(request.target).query;
  if (!status.starts_with(kStatusIs)) return answer_problem(response, {400, kWrongReport});
  status.remove_prefix(kStatusIs.size());
  const auto costs = read(request, response);
  if (!costs) return;
  const RuleAnswer& answer =
      session_.report(attributes_, ReportedFields(status, request.fields), *costs);
  response.status = http_status(answer);
  if (answer.decision.allowed()) return;
  const Rejection rejection = rejection_of(answer, response.text);
  response.content_type = rejection.content_type;
  response.body = rejection.body;
}

void AuthEndpoint::handle(const http::Request& request, http::Response& response) {
  const std::string_view query = split_target(request.target).query;
  if (!query.empty() && query != kDenyBy403) return answer_problem(response, {400, kWrongQuery});
  const auto costs = read(request, response);
  if (!costs) return;
  const RuleAnswer& answer = session_.decide(attributes_, *costs);
  response.fields.append(fields_.lines(answer));
  response.status = http_status(answer);
  if (answer.decision.allowed()) return add_delay(answer.decision, response);
  append_reject_headers(answer, response.fields);
  const bool invalid = answer.decision.reason == Reason::kInvalid;
  if (invalid || (answer.rule != nullptr && !answer.rule->reject.body.empty())) {
    const Rejection rejection = rejection_of(answer, response.text);
    response.content_type = rejection.content_type;
    response.body = rejection.body;
  }
  if (!query.empty()) response.status = 403;
}

}  // namespace sluice::server
