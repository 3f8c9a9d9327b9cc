#include "server/net/fiber_sleep.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include "server/net/fiber.h"

namespace sluice::server::net {

// Handlers that the loop still has to run share it.
struct FiberSleep::State {
  explicit State(boost::asio::io_context& of) : loop(of), timer(of) {}

  void wake() {
    is_woken = true;
    if (wait != nullptr) std::exchange(wait, nullptr)->finish();
  }

  boost::asio::io_context& loop;
  boost::asio::steady_timer timer;
  FiberWait* wait = nullptr;  // if the fiber sleeps
  bool is_woken = false;
  bool is_stopped = false;
};

void FiberSleeps::stop() {
  stopped_ = true;
  for (FiberSleep* const one : std::vector(all_)) {
    // A fiber that was woken may have ended others.
    if (std::find(all_.begin(), all_.end(), one) != all_.end()) one->state_->wake();
  }
}

FiberSleep::FiberSleep(FiberSleeps& loop)
    : loop_(loop), state_(std::make_shared<State>(loop.loop_)) {
  loop_.all_.push_back(this);
}

FiberSleep::~FiberSleep() { std::erase(loop_.all_, this); }

bool FiberSleep::sleep(Instant until) {
  State& state = *state_;
  if (state.is_stopped || loop_.stopped_) return false;
  if (std::exchange(state.is_woken, false)) return true;
  FiberWait wait;
  state.wait = &wait;
  if (until != Instant::max()) {
    state.timer.expires_at(std::chrono::steady_clock::time_point(until.time_since_epoch()));
    state.timer.async_wait([shared = state_](const boost::system::error_code& why) {
      if (!why) shared->wake();
    });
  }
  wait.wait();
  state.timer.cancel();
  state.is_woken = false;
  return !state.is_stopped && !loop_.stopped_;
}

void FiberSleep::wake() {
  boost::asio::post(state_->loop, [shared = state_] { shared->wake(); });
}

void FiberSleep::stop() {
  state_->is_stopped = true;
  wake();
}

namespace {

// Work that a fiber waits for.
struct WorkElsewhere {
  void run() {
    const auto* const begun = std::exchange(work, nullptr);
    try {
      (*begun)();
    } catch (...) {
      thrown = std::current_exception();
    }
  }

  std::mutex mutex;
  const std::function<void()>* work;  // null once it has begun; the next two are the fiber's, too
  FiberSleep* sleep;
  std::exception_ptr thrown = {};
};

}  // namespace

void run_elsewhere(boost::asio::io_context& elsewhere, FiberSleeps& sleeps,
                   const std::function<void()>& work) {
  FiberSleep sleep(sleeps);
  const auto shared = std::make_shared<WorkElsewhere>();
  shared->work = &work;
  shared->sleep = &sleep;
  boost::asio::post(elsewhere, [shared] {
    const std::lock_guard lock(shared->mutex);
    if (shared->work == nullptr) return;  // the fiber has not waited
    shared->run();
    shared->sleep->wake();
  });
  sleep.sleep(Instant::max());
  const std::lock_guard lock(shared->mutex);
  if (shared->work != nullptr) shared->run();
  if (shared->thrown) std::rethrow_exception(shared->thrown);
}

}  // namespace sluice::server::net
