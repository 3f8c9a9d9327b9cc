#pragma once

#include <atomic>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/net/bounds.h"
#include "server/net/fiber.h"
#include "server/net/listener.h"
#include "server/net/loop_front_end.h"
#include "server/net/poller.h"
#include "server/net/transport.h"
#include "server/protocol/resp/client.h"
#include "server/protocol/resp/connection_state.h"

namespace sluice::server::resp {

// A connection that speaks RESP: the socket of a ConnectionState. Cost: about 400 bytes while idle;
// one system call to read and one to write for everything that arrives together.
class Connection final : private net::Poller::Source, private ConnectionState::Owner {
 public:
  struct Shared : SharedState {
    net::Poller& poller;
    const Users& users;
    std::atomic<std::uint64_t>& last_id;  // of the connections of all loops
    std::string unix_path = {};           // of the listening socket, if it is a Unix socket
    std::string input = std::string(std::size_t{64} << 10,
                                    '\0');  // shared by the connections, which read one at a time
  };
  using Owner = net::ConnectionOwner<Connection>;
  static constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";
  static constexpr std::string_view kNeedsTls = "-ERR expected TLS on this port\r\n";

  // See net::Listener.
  static std::unique_ptr<Connection> open(net::Accepted& accepted, Shared& shared, Owner& owner,
                                          net::SteadyTime now, boost::system::error_code& why);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void tick(net::SteadyTime now);
  void drain(net::SteadyTime now) { state_.on_drain(now); }

  std::size_t place = 0;

 private:
  using Action = ConnectionState::Action;

  Connection(net::Accepted& accepted, Client client, Shared& shared, Owner& owner,
             net::SteadyTime now);
  void ready() override;
  void act(Action action) override;
  void receive();
  Action send();
  void wait_for(net::Poller::For what);
  void close();

  Shared& shared_;
  Owner& owner_;
  int descriptor_;  // below 0 once it is closed
  net::Transport transport_;
  net::Poller::For waits_for_ = net::Poller::For::kInput;
  bool answering_ = false;
  ConnectionState state_;
};

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
