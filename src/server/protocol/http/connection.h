#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
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
#include "server/protocol/http/connection_state.h"

namespace sluice::server::http {

// A connection that speaks HTTP/1.1: the socket of a ConnectionState. For everything that arrives
// together it makes one read and one write.
class Connection final : private net::Poller::Source, private ConnectionState::Owner {
 public:
  struct Shared : SharedState {
    Shared(const Bounds& of_listener, Handlers& of_loop, metrics::Recorder& to,
           const net::LoopClock& loop_clock, net::Poller& of_front_end)
        : SharedState(of_listener, of_loop, to, loop_clock), poller(of_front_end) {}

    net::Poller& poller;
    RoleOfCertificate role_of_certificate;  // may be empty
    std::string input = std::string(std::size_t{64} << 10,
                                    '\0');  // shared by the connections, which read one at a time
  };
  using Owner = net::ConnectionOwner<Connection>;
  static constexpr std::string_view kRefusal =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
      "Content-Length: 75\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
      R"({"type":"about:blank","title":"too many connections at once","status":503})"
      "\n";

  static constexpr std::string_view kNeedsTls =
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n"
      "Content-Length: 74\r\nConnection: close\r\n\r\n"
      R"({"type":"about:blank","title":"expected https on this port","status":400})"
      "\n";

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

  Connection(net::Accepted& accepted, Shared& shared, Owner& owner, net::SteadyTime now);
  void ready() override;
  void act(Action action) override;
  void receive();
  Action send();
  void wait_for(net::Poller::For what);
  void bound_send_buffer();
  void close();

  int descriptor_;  // below 0 once it is closed
  net::Transport transport_;
  Shared& shared_;
  Owner& owner_;
  net::Poller::For waits_for_ = net::Poller::For::kInput;
  bool answering_ = false;
  bool bounded_ = false;  // the buffer of the socket is small
  ConnectionState state_;
};

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
