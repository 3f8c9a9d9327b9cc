#include "server/api/operations/metrics_worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <utility>

namespace sluice::server {
namespace {

// Signals are for other threads. The priority of a thread is that of its nice value in Linux.
void become_a_worker() {
  constexpr int kNice = 10;
  sigset_t all{};
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice));
}

}  // namespace

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
    waiters_.push_back(waiter);
  }
  wake_.notify_one();
  const bool woken = sleep.sleep(Instant::max());
  const std::lock_guard lock(waiter->mutex);
  waiter->sleep = nullptr;
  if (woken && waiter->text == nullptr) throw std::bad_alloc();
  return woken ? std::move(waiter->text) : std::make_shared<const std::string>(registry_.text());
}

void MetricsWorker::run() {
  become_a_worker();
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

}  // namespace sluice::server
