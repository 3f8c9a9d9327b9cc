#include "server/runtime/admin_handler.h"

#include "server/api/admin/live_page.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server {

void AdminHandler::handle(const http::Request& request, http::Response& response) {
  const std::string_view path = split_target(request.target).path;
  if (path == "/healthz" || path == "/readyz") return operations_.handle(path, request, response);
  if (answer_live_page(path, request, response)) return;
  if (const auto refusal = access_.find_refusal(request)) return answer_problem(response, *refusal);
  if (path.starts_with("/v1/")) return endpoint_.handle(request, response);
  operations_.handle(path, request, response);
}

void AdminHandler::finished(const http::Request& request, const http::Response& response,
                            std::chrono::nanoseconds took) {
  recorder_.observe(metrics::FrontEnd::kOther, took);
  if (!log_.options().access) return;
  log_.access({request.method, request.target, response.status, request.peer, took, "admin"});
}

}  // namespace sluice::server
