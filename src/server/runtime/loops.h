#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>

#include "server/runtime/loop.h"

namespace sluice::server {

// The event loops of a server. Thread-safety: the thread that made it.
class Loops {
 public:
  // Returns how many loops to run: `wanted`, or one for each processor if that is 0.
  static std::size_t count(std::size_t wanted);

  Loop& add(const Loop::Parts& parts) { return all_.emplace_back(parts); }
  std::size_t size() const noexcept { return all_.size(); }

  void start();
  void follow_rules();
  void hand_over_keys();
  // Stops accepting in all loops, and then calls `stopped` in the loop `main`.
  void stop_accepting(boost::asio::io_context& main, net::Queued queued,
                      const std::function<void()>& stopped);
  // Lets the connections of all loops finish, and then calls `drained` in the loop `main`.
  void drain(boost::asio::io_context& main, const std::function<void()>& drained);
  void stop();

 private:
  std::function<void()> after_all(boost::asio::io_context& main, std::function<void()> done);

  std::deque<Loop> all_;
  std::size_t waiting_for_ = 0;  // loops that have not stopped or drained yet
};

}  // namespace sluice::server
