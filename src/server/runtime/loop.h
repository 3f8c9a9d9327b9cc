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
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/storage/loop_stores.h"

namespace sluice::server {

// What a front end uses in one event loop.
struct LoopServices {
  boost::asio::io_context& context;
  Session::Parts session;  // of each handler
  const net::LoopClock& clock;
  std::optional<net::FiberPool::Options> fibers = {};  // if the store may wait
  std::function<redis::Client*()> redis = {};          // called for each command; empty: no Redis
  net::FiberSleeps* sleeps = nullptr;                  // null: no request may wait for units
};

// An event loop with a thread of its own, its stores and its front ends.
//
// If `make_stores` makes stores, they may wait, and each request runs on a fiber. Otherwise the
// store never waits, and requests run on the loop's own stack.
//
// Thread-safety: the thread that made it. Ownership: borrows what it is given; whatever
// `make_stores` uses must outlive the loop.
class Loop {
 public:
  // Called once, before the loop runs. Null: the store never waits.
  using MakeStores = std::function<std::unique_ptr<LoopStores>(boost::asio::io_context&)>;
  // Called once, with these stores or null.
  using MakeSession = std::function<Session::Parts(LoopStores* stores)>;

  // `fibers`: `most` requests at the same time; others are queued.
  Loop(const MakeSession& make_session, const net::LoopClock& clock,
       const MakeStores& make_stores = {}, const net::FiberPool::Options& fibers = {});
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // For front ends, which are added before start().
  const LoopServices& services() const noexcept { return services_; }
  void add(std::unique_ptr<net::LoopFrontEnd> front_end) {
    front_ends_.push_back(std::move(front_end));
  }
  void start();
  // Releases rules that are no longer active; requests that wait do so when they are done.
  void follow_rules();
  // Passes on the keys that were counted.
  void hand_over_keys();
  // These call `stopped` and `drained` in the loop's thread.
  void stop_accepting(net::Queued queued, std::function<void()> stopped);
  void drain(std::function<void()> drained);
  // Closes all connections; requests that wait for the store fail.
  void stop();

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  net::FiberSleeps sleeps_{context_};
  std::unique_ptr<LoopStores> stores_;
  LoopServices services_;
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
