#include "server/runtime/public_handler.h"

#include "server/protocol/http/request_target.h"

namespace sluice::server {

PublicHandler::PublicHandler(const Parts& parts)
    : recorder_(parts.recorder),
      log_(parts.log),
      operations_(parts.operations),
      session_(parts.session),
      auth_(session_, parts.trusted),
      check_(session_),
      rls_({parts.session, parts.envoy}),
      json_(rls_) {}

void PublicHandler::handle(const http::Request& request, http::Response& response) {
  const std::string_view path = split_target(request.target).path;
  if (path == "/v1/auth") {
    endpoint_ = metrics::FrontEnd::kAuth;
    auth_.handle(request, response);
  } else if (path == "/v1/check") {
    endpoint_ = metrics::FrontEnd::kCheck;
    check_.handle(request, response);
  } else if (path == "/json") {
    endpoint_ = metrics::FrontEnd::kJson;
    json_.handle(request, response);
  } else {
    endpoint_ = metrics::FrontEnd::kOther;
    operations_.handle(path, request, response);
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
