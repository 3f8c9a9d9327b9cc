#include "server/api/operations/operations.h"

#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "server/logging/log.h"
#include "server/net/fiber.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
MetricsWorker::MetricsWorker(const metrics::Registry& registry)
    : registry_(registry), thread_([this] { run(); }) {}

MetricsWorker::~MetricsWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::shared_ptr<const std::string> MetricsWorker::text(net::FiberSleeps& sleeps) {
  net::FiberSleep sleep(sleeps);
  const auto waiter = std::make_shared<Waiter>();
  waiter->sleep = &sleep;
  {
    const std::lock_guard lock(mutex_);
    std::size_t& waiting = waiting_[&sleeps];
    if (waiting == kMostWaiting) return nullptr;
    waiters_.push_back(waiter);
    ++waiting;
  }
  wake_.notify_one();
  const bool woken = sleep.sleep(Instant::max());
  {
    const std::lock_guard lock(mutex_);
    if (--waiting_[&sleeps] == 0) waiting_.erase(&sleeps);
  }
  const std::lock_guard lock(waiter->mutex);
  waiter->sleep = nullptr;
  if (woken && waiter->text == nullptr) throw std::bad_alloc();
  return woken ? std::move(waiter->text) : std::make_shared<const std::string>(registry_.text());
}

// The priority of a thread is that of its nice value in Linux.
void MetricsWorker::run() {
  constexpr int kNice = 10;
  block_signals();
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice));
  std::vector<std::shared_ptr<Waiter>> served;
  for (std::unique_lock lock(mutex_);;) {
    wake_.wait(lock, [this] { return is_stopped_ || !waiters_.empty(); });
    if (is_stopped_) return;
    served.swap(waiters_);
    lock.unlock();
    std::shared_ptr<const std::string> text;
    try {
      text = std::make_shared<const std::string>(registry_.text());
    } catch (const std::bad_alloc&) {  // the fibers that wait throw it
    }
    for (const std::shared_ptr<Waiter>& waiter : served) {
      const std::lock_guard waits(waiter->mutex);
      if (waiter->sleep == nullptr) continue;
      waiter->text = text;
      waiter->sleep->wake();
    }
    served.clear();
    lock.lock();
  }
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
