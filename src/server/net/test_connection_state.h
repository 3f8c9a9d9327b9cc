#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/metrics.h"
#include "server/net/connection.h"
#include "server/net/fiber.h"
#include "server/net/loop_clock.h"

namespace sluice::server::net {

// A clock that a test sets. It starts at one hour and at 1994-11-06T08:49:37Z.
class ManualLoopClock final : public LoopClock {
 public:
  SteadyTime now() const noexcept override { return time; }
  std::time_t date() const noexcept override { return 784'111'777; }

  SteadyTime time{std::chrono::hours(1)};
};

// Fibers that wait until a test finishes their waits.
class TestWaits {
 public:
  // Called on a fiber.
  void wait() {
    FiberWait wait;
    waits_.push_back(&wait);
    wait.wait();
  }
  void finish_first() {
    FiberWait* const first = waits_.front();
    waits_.pop_front();
    first->finish();
  }
  void finish_all() {
    while (!waits_.empty()) finish_first();
  }

 private:
  std::deque<FiberWait*> waits_;
};

// A connection without a socket, and what it sent. The derived test makes `state_`.
template <typename State>
class ConnectionStateTest : public ::testing::Test {
 protected:
  using Action = net::Action;

  void TearDown() override {
    waits_.finish_all();
    state_.reset();
  }
  // With a socket that has room for everything.
  Action input(std::string_view bytes) { return run(state_->on_input(bytes, clock_.time)); }
  Action run(Action action) {
    while (action == Action::kSend) {
      const std::string_view out = state_->output();
      sent_.append(out);
      action = state_->on_sent(out.size());
    }
    return action;
  }
  Act act() {
    return [this](Action action) { resumed_ = run(action); };
  }
  bool sent(std::string_view text) const { return sent_.find(text) != std::string::npos; }

  ManualLoopClock clock_;
  metrics::Registry registry_;
  TestWaits waits_;
  std::optional<State> state_;
  std::string sent_;
  std::optional<Action> resumed_;  // the action after a request that had to wait
};

}  // namespace sluice::server::net
