#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/net/acceptor.h"
#include "server/net/fiber.h"
#include "server/net/listener.h"
#include "server/net/loop_front_end.h"
#include "server/protocol/grpc/connection.h"
#include "server/protocol/grpc/handlers.h"

namespace sluice::server::grpc {

// gRPC in one event loop. Ownership: borrows what its Parts refer to.
class FrontEnd final : public net::LoopFrontEnd {
 public:
  struct Parts {
    const Bounds& bounds;
    std::vector<std::string_view> paths;  // the handler's methods; literals
    std::size_t most_streams = 1024;      // concurrent calls of a connection
    Ages ages = {};
    const std::atomic<bool>& serving;  // what Health reports
    std::function<std::unique_ptr<Handler>()> make;
    std::optional<net::FiberPool::Options> fibers = {};  // if handlers may wait
    RoleOfCertificate role_of_certificate = {};          // for clients with certificates
  };

  FrontEnd(const Parts& parts, const net::Acceptor::Parts& accept, net::ListeningSocket socket)
      : handlers_([make = parts.make] { return std::make_unique<Worker>(make()); }, parts.fibers),
        shared_{{{parts.bounds, parts.most_streams, handlers_, parts.paths, accept.recorder,
                  parts.serving, accept.clock},
                 parts.ages},
                accept.loop,
                parts.role_of_certificate},
        listener_(accept, std::move(socket), shared_) {}

  void follow_rules() override { handlers_.follow_rules(); }
  void stop_accepting(net::Queued queued, std::function<void()> stopped) override {
    listener_.stop_accepting(queued, std::move(stopped));
  }
  void drain(std::function<void()> drained) override { listener_.drain(std::move(drained)); }

 private:
  Handlers handlers_;
  Connection::Shared shared_;
  net::Listener<Connection> listener_;
};

}  // namespace sluice::server::grpc
