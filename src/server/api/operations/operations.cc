#include "server/api/operations/operations.h"

#include <memory>
#include <string>

#include "server/net/fiber.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

void answer_word(http::Response& response, int status, std::string_view word) {
  response.text.assign(word);
  response.add("Cache-Control", "no-store");
  response.answer_text(status, "text/plain; charset=utf-8");
}

}  // namespace

void Operations::handle(std::string_view path, const http::Request& request,
                        http::Response& response) const {
  const bool known = path == "/healthz" || path == "/readyz" || path == "/metrics";
  if (!known) {
    return answer_problem(response, {404, "unknown path; docs/http.md lists the paths"});
  }
  if (request.method != "GET" && request.method != "HEAD") {
    response.add("Allow", "GET, HEAD");
    return answer_problem(response, {405, "expected GET or HEAD"});
  }
  if (path == "/healthz") return answer_word(response, 200, "ok\n");
  if (path == "/readyz") {
    const bool ready = ready_->load(std::memory_order_relaxed);
    return answer_word(response, ready ? 200 : 503, ready ? "ready\n" : "draining\n");
  }
  const bool may_wait = worker_ != nullptr && sleeps_ != nullptr && net::current_fiber() != nullptr;
  response.shared_text =
      may_wait ? worker_->text(*sleeps_) : std::make_shared<const std::string>(registry_->text());
  response.status = 200;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = *response.shared_text;
}

}  // namespace sluice::server
