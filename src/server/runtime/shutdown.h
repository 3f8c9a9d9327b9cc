#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/net/loop_front_end.h"
#include "server/runtime/front_ends.h"
#include "server/runtime/loops.h"

namespace sluice::server {

// The end of a server: closes the listeners, lets the connections finish, and then stops `main`
// (docs/restart.md).
//
// Thread-safety: the thread of `main`. Ownership: borrows its parts.
class Shutdown {
 public:
  struct Parts {
    boost::asio::io_context& main;
    const Config& config;
    Log& log;
    FrontEnds& front_ends;
    Loops& loops;
    std::atomic<bool>& ready;
  };
  explicit Shutdown(const Parts& parts);

  // Ends the server after `drain.delay`, in which it still accepts.
  void drain();
  // Ends the server, whose successor accepts already.
  void hand_over();
  void stop();
  bool begun() const noexcept { return begun_; }

 private:
  void close_listeners(net::Queued queued);

  const Parts parts_;
  boost::asio::steady_timer timer_;
  bool begun_ = false;
};

}  // namespace sluice::server
