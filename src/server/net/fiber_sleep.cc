#include "server/net/fiber_sleep.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
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

void run_elsewhere(boost::asio::io_context& elsewhere, FiberSleeps& sleeps,
                   const std::function<void()>& work) {
  FiberSleep sleep(sleeps);
  std::packaged_task<void()> task(std::cref(work));
  const auto begun = std::make_shared<std::once_flag>();
  // If the fiber has not waited, the flag is set, and the other two are gone.
  boost::asio::post(elsewhere, [begun, &task, &sleep] {
    std::call_once(*begun, [&] {
      task();
      sleep.wake();
    });
  });
  sleep.sleep(Instant::max());
  std::call_once(*begun, std::ref(task));  // waits for work that has begun
  task.get_future().get();                 // throws what the work has thrown
}

}  // namespace sluice::server::net
