#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/api/resp/command_handler.h"
#include "server/api/resp/listener.h"
#include "server/api/resp/worker_pool.h"
#include "server/net/fiber.h"

namespace sluice::server::resp {

// What the RESP doors of all loops share.
struct Common {
  Users users;
  std::string unix_path;  // where it listens at a Unix socket
  std::chrono::milliseconds idle_timeout{0};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::uint64_t> last_id{0};
  About about{"", std::chrono::steady_clock::now(), connections};
};

// The RESP door of one event loop: a listener, and the handler or the crew behind it.
//
// All members by the loop's thread, but for the constructor. Ownership: borrows the parts. Where
// the store waits, its waits are ended before the door is destroyed.
class FrontEnd {
 public:
  struct Parts {
    boost::asio::io_context& loop;
    const Bounds& bounds;
    metrics::Recorder& recorder;
    Log& log;
    Common& common;
    // What a handler asks. Called for each of them.
    std::function<Session::Parts()> session;
    bool waits = false;  // each on a fiber
    net::FiberPool::Options fibers = {};
  };

  FrontEnd(const Parts& parts, net::ListeningSocket socket);

  // See Session.
  void follow_rules();
  // See Listener.
  void drain(std::function<void()> drained) { listener_->drain(std::move(drained)); }

 private:
  std::unique_ptr<CommandHandler> handler_;  // this, or the crew
  std::unique_ptr<Crew> crew_;
  std::optional<Listener> listener_;
};

}  // namespace sluice::server::resp
