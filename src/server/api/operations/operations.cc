#include "server/api/operations/operations.h"

#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "server/logging/log.h"
#include "server/net/fiber.h"
#include "server/net/fiber_sleep.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {

// The priority of a thread is that of its nice value in Linux.
MetricsWorker::MetricsWorker(const metrics::Registry& registry)
    : registry_(registry), thread_([this] {
        constexpr int kNice = 10;
        block_signals();
        static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice));
        loop_.run();
      }) {}

MetricsWorker::~MetricsWorker() {
  loop_.stop();
  thread_.join();
}

std::shared_ptr<const std::string> MetricsWorker::text(net::FiberSleeps& sleeps) {
  {
    const std::lock_guard lock(mutex_);
    std::size_t& waiting = waiting_[&sleeps];
    if (waiting == kMostWaiting) return nullptr;
    ++waiting;
  }
  const std::shared_ptr<void> waits(nullptr, [&](void*) {
    const std::lock_guard lock(mutex_);
    if (--waiting_[&sleeps] == 0) waiting_.erase(&sleeps);
  });
  const std::uint64_t request = ++requests_;
  std::shared_ptr<const std::string> text;
  net::run_elsewhere(loop_, sleeps, [&] { text = text_since(request); });
  return text;
}

// Returns a text that was begun after the request with this number: the latest, if a request still
// has it, or a new one.
std::shared_ptr<const std::string> MetricsWorker::text_since(std::uint64_t request) {
  const std::lock_guard lock(text_mutex_);
  auto text = last_ >= request ? text_.lock() : nullptr;
  if (text != nullptr) return text;
  const std::uint64_t last = requests_;
  text = std::make_shared<const std::string>(registry_.text());
  text_ = text;
  last_ = last;
  return text;
}

namespace {

void answer_word(http::Response& response, int status, std::string_view word) {
  response.text.assign(word);
  response.add("Cache-Control", "no-store");
  response.answer_text(status, "text/plain; charset=utf-8");
}

}  // namespace

void Operations::handle(std::string_view path, const http::Request& request,
                        http::Response& response) const {
  if (!knows(path)) {
    return answer_problem(response, {404,
                                     "unknown path; expected / for the live page, a path of the "
                                     "administration such as /v1/status, /healthz, /readyz or "
                                     "/metrics"});
  }
  if (request.method != "GET" && request.method != "HEAD") {
    response.add("Allow", "GET, HEAD");
    return answer_problem(response, {405, "expected GET or HEAD"});
  }
  if (path == "/healthz") return answer_word(response, 200, "ok\n");
  if (path == "/readyz") {
    const bool ready = ready_->answer();
    return answer_word(response, ready ? 200 : 503, ready ? "ready\n" : "draining\n");
  }
  const bool may_wait = worker_ != nullptr && sleeps_ != nullptr && net::current_fiber() != nullptr;
  response.shared_text =
      may_wait ? worker_->text(*sleeps_) : std::make_shared<const std::string>(registry_->text());
  if (response.shared_text == nullptr) {
    response.add("Retry-After", "1");
    return answer_problem(response, {503, "too many requests wait for the metrics"});
  }
  response.status = 200;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = *response.shared_text;
}

}  // namespace sluice::server
