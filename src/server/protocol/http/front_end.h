#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "server/net/bounds.h"
#include "server/net/fiber.h"
#include "server/net/listener.h"
#include "server/net/loop_front_end.h"
#include "server/net/poller.h"
#include "server/protocol/http/connection.h"
#include "server/protocol/http/handlers.h"

namespace sluice::server::http {

// HTTP in one event loop. Ownership: borrows what its Parts refer to.
class FrontEnd final : public net::LoopFrontEnd {
 public:
  struct Parts {
    const Bounds& bounds;
    std::function<std::unique_ptr<Handler>()> make;
    std::optional<net::FiberPool::Options> fibers = {};  // if handlers may wait
    RoleOfCertificate role_of_certificate = {};          // for clients with certificates
  };

  FrontEnd(const Parts& parts, const net::Acceptor::Parts& accept, net::ListeningSocket socket)
      : poller_(accept.loop, accept.clock),
        handlers_([make = parts.make] { return std::make_unique<Worker>(make()); }, parts.fibers),
        shared_(parts.bounds, handlers_, accept.recorder, accept.clock, poller_),
        listener_(accept, std::move(socket), shared_) {
    shared_.role_of_certificate = parts.role_of_certificate;
  }

  void follow_rules() override { handlers_.follow_rules(); }
  void stop_accepting(net::Queued queued, std::function<void()> stopped) override {
    listener_.stop_accepting(queued, std::move(stopped));
  }
  void drain(std::function<void()> drained) override { listener_.drain(std::move(drained)); }

 private:
  net::Poller poller_;
  Handlers handlers_;
  Connection::Shared shared_;
  net::Listener<Connection> listener_;
};

}  // namespace sluice::server::http
