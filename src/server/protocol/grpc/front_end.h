#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/net/fiber.h"
#include "server/protocol/grpc/listener.h"

namespace sluice::server::grpc {

// What the gRPC front ends of all loops share.
struct Common {
  std::vector<std::string_view> paths;  // see Listener::Parts
  std::size_t most_streams = 1024;
  Ages ages;
  std::shared_ptr<net::TlsContext> tls;  // null: plaintext
  std::atomic<std::size_t> connections{0};
};

// The gRPC front end of one event loop: a listener, and the handler or the workers behind it.
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
    const std::atomic<bool>& serving;  // what Health says
    Workers::Make make;                // of a handler
    bool waits = false;                // each on a fiber
    net::FiberPool::Options fibers = {};
  };

  FrontEnd(const Parts& parts, net::ListeningSocket socket);

  // The rules have changed; see Handler.
  void follow_rules();
  // See Listener.
  void drain(std::function<void()> drained) { listener_->drain(std::move(drained)); }

 private:
  std::unique_ptr<Handler> handler_;  // this, or the workers
  std::optional<Workers> workers_;
  std::optional<Listener> listener_;
};

}  // namespace sluice::server::grpc
