#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// A timer of Boost.Asio that keeps Timer's promise: Asio may run a handler that was already queued
// when its timer is set, stopped or destroyed.
class AsioTimer final : public Timer {
 public:
  AsioTimer(boost::asio::io_context& loop, std::function<void()> on_time)
      : state_(std::make_shared<State>(loop, std::move(on_time))) {}
  ~AsioTimer() override { stop(); }
  AsioTimer(const AsioTimer&) = delete;
  AsioTimer& operator=(const AsioTimer&) = delete;

  // Asio declares that these functions may throw; only the allocation of a handler can fail.
  void set(Time at) noexcept override {  // NOLINT(bugprone-exception-escape)
    state_->timer.expires_at(at);
    state_->timer.async_wait([state = state_, number = ++state_->number](const auto& error) {
      if (!error && number == state->number) state->on_time();
    });
  }
  void stop() noexcept override {  // NOLINT(bugprone-exception-escape)
    ++state_->number;
    state_->timer.cancel();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    State(boost::asio::io_context& loop, std::function<void()> function)
        : timer(loop), on_time(std::move(function)) {}
    boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>,
                                      boost::asio::io_context::executor_type>
        timer;
    std::function<void()> on_time;
    std::uint64_t number = 0;  // of the last set() or stop()
  };
  std::shared_ptr<State> state_;  // shared with the handlers that are under way
};

}  // namespace sluice::redis
