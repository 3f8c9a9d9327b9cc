#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/net/bounds.h"
#include "server/net/fiber.h"
#include "server/net/listener.h"
#include "server/net/loop_front_end.h"
#include "server/protocol/resp/connection.h"

namespace sluice::server::resp {

// RESP in one event loop. Ownership: borrows what its Parts refer to.
class FrontEnd final : public net::LoopFrontEnd {
 public:
  struct Parts {
    const Bounds& bounds;
    const Users& users;
    std::atomic<std::uint64_t>& last_id;        // of the connections of all loops
    std::string unix_path = {};                 // of the listening socket, if it is a Unix socket
    std::chrono::milliseconds idle_timeout{0};  // 0: none
    std::function<std::unique_ptr<Handler>()> make;
    std::optional<net::FiberPool::Options> fibers = {};  // if handlers may wait
  };

  FrontEnd(const Parts& parts, const net::Acceptor::Parts& accept, net::ListeningSocket socket)
      : poller_(accept.loop, accept.clock),
        handlers_(parts.make, parts.fibers),
        shared_{{parts.bounds, handlers_, accept.recorder, accept.clock, parts.idle_timeout},
                poller_,
                parts.users,
                parts.last_id,
                parts.unix_path},
        listener_(accept, std::move(socket), shared_) {}

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

}  // namespace sluice::server::resp
