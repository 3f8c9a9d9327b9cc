#include "server/runtime/public_handler.h"

#include "server/api/check/check_endpoint.h"
#include "server/protocol/http/problem.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server {
namespace {

std::optional<CheckKind> check_kind_of(std::string_view path) noexcept {
  if (path == "/v1/check") return CheckKind::kCheck;
  if (path == "/v1/settle") return CheckKind::kSettle;
  if (path == "/v1/report") return CheckKind::kReport;
  return std::nullopt;
}

// Whether the fields of the request describe the one whose response it reports. As at /v1/auth, the
// host and other fields can be those of a client.
bool is_gateway_report(std::string_view target) noexcept {
  const auto [path, query] = split_target(target);
  return path == "/v1/report" && !query.empty();
}

constexpr std::string_view kRelease = "/v1/release", kExtend = "/v1/extend";

metrics::FrontEnd endpoint_of(std::string_view path) noexcept {
  if (path == "/v1/auth") return metrics::FrontEnd::kAuth;
  if (check_kind_of(path)) return metrics::FrontEnd::kCheck;
  if (path == kRelease || path == kExtend) return metrics::FrontEnd::kCheck;
  if (path == "/json") return metrics::FrontEnd::kJson;
  return metrics::FrontEnd::kOther;
}

}  // namespace

PublicHandler::PublicHandler(const Parts& parts)
    : recorder_(parts.recorder),
      log_(parts.log),
      operations_(parts.operations),
      access_(parts.access),
      session_(parts.session),
      auth_(session_, parts.trusted),
      check_(session_, parts.waiting),
      rls_({parts.session, parts.envoy}),
      json_(rls_) {
  session_.use_trace(&trace_);
}

// Load balancers may send any host and any field to the endpoints that are open to all.
void PublicHandler::handle(const http::Request& request, http::Response& response) {
  const std::string_view path = split_target(request.target).path;
  endpoint_ = endpoint_of(path);
  trace_.request = &request;
  if (path == "/healthz" || path == "/readyz") return operations_.handle(path, request, response);
  const bool is_auth = endpoint_ == metrics::FrontEnd::kAuth;
  const bool describes = is_auth || is_gateway_report(request.target);
  if (const auto refusal =
          describes ? access_.find_gateway_refusal(request) : access_.find_refusal(request))
    return answer_problem(response, *refusal);
  if (is_auth) return auth_.handle(request, response);
  if (endpoint_ == metrics::FrontEnd::kOther) return operations_.handle(path, request, response);
  const auto role = access_.role_of(request);
  if (!role) {
    response.add("WWW-Authenticate", "Bearer realm=\"sluice\"");
    return answer_problem(response, {401, kUnknownToken});
  }
  const bool may_operate = *role >= Role::kOperate;
  if (path == kRelease || path == kExtend) {
    const PermitAction action = path == kRelease ? PermitAction::kRelease : PermitAction::kExtend;
    answer_permit(action, session_, request, response);
  } else if (describes) {
    if (!may_operate) return answer_problem(response, {403, kNeedsOperate});
    auth_.report(request, response);
  } else if (const auto kind = check_kind_of(path)) {
    check_.handle(*kind, request, may_operate, response);
  } else {
    json_.handle(request, may_operate, response);
  }
}

void PublicHandler::finished(const http::Request& request, const http::Response& response,
                             std::chrono::nanoseconds took) {
  recorder_.observe(endpoint_, took);
  if (!log_.options().access) return;
  log_.access({request.method, request.target, response.status, request.peer, took,
               metrics::to_string(endpoint_)});
}

}  // namespace sluice::server
