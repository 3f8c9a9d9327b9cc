#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "metrics/metrics.h"
#include "server/decide/session.h"
#include "server/logging/log.h"
#include "server/net/fiber.h"
#include "server/net/fiber_sleep.h"
#include "server/net/loop_front_end.h"
#include "server/storage/loop_stores.h"

namespace sluice::server {

// An event loop with its stores and its front ends. It runs in a thread of its own or in that of
// the caller.
//
// Stores of a loop may wait, and then each request runs on a fiber. Without them the store never
// waits, and requests run on the loop's own stack.
//
// Thread-safety: the thread that made it. Ownership: owns its stores and front ends; what they use
// must outlive it.
class Loop {
 public:
  Loop() = default;
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  boost::asio::io_context& context() noexcept { return context_; }
  // Sets what its front ends use. Call it once, before they are made.
  void open(std::unique_ptr<LoopStores> stores, const Session::Parts& session);
  // Null: the store never waits.
  LoopStores* stores() const noexcept { return stores_.get(); }
  // Of each handler.
  const Session::Parts& session() const { return *session_; }
  net::FiberSleeps& sleeps() noexcept { return sleeps_; }
  // If the store may wait.
  std::optional<net::FiberPool::Options> fibers() const {
    return stores_ ? std::optional(net::FiberPool::Options()) : std::nullopt;
  }
  // Called for each command; empty: no Redis.
  std::function<redis::Client*()> redis() const;

  // Front ends are added before the loop runs.
  void add(std::unique_ptr<net::LoopFrontEnd> front_end) {
    front_ends_.push_back(std::move(front_end));
  }
  // Runs in this thread until stop(). Then requests that wait for the store fail.
  void run();
  // Runs in a thread of its own.
  void start();
  // Releases rules that are no longer active; requests that wait do so when they are done.
  void follow_rules();
  // Passes on the keys that were counted.
  void hand_over_keys();
  // These call `stopped` and `drained` in the loop's thread.
  void stop_accepting(net::Queued queued, std::function<void()> stopped);
  void drain(std::function<void()> drained);
  // Ends run(), and waits for the thread if there is one. Nothing more is read or sent.
  void stop();

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  net::FiberSleeps sleeps_{context_};
  std::unique_ptr<LoopStores> stores_;
  std::optional<Session::Parts> session_;
  std::vector<std::unique_ptr<net::LoopFrontEnd>> front_ends_;
  std::thread thread_;
};

// Returns what sessions use besides a limiter. `loop`: may be null.
RuleStores rule_stores(LoopStores* loop, const Overrides* overrides);

// Returns how many loops to run: `wanted`, or one for each processor if that is 0.
std::size_t count_loops(std::size_t wanted);
// Returns what each loop calls when it has finished. The last one calls `done` in the loop `main`.
std::function<void()> after_all(const std::deque<Loop>& loops, boost::asio::io_context& main,
                                std::function<void()> done);

}  // namespace sluice::server
