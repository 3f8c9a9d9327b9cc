#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "server/net/acceptor.h"
#include "server/net/listening_socket.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/socket_address.h"
#include "server/net/transport.h"

namespace sluice::server::net {

// An accepted connection. The descriptor does not block; the receiver owns it.
struct Accepted {
  int descriptor;
  int family;
  SocketAddress peer;
  SteadyTime since;                           // when it was accepted
  std::unique_ptr<TlsSession> tls = nullptr;  // null: plaintext
  SteadyTime deadline = {};                   // of the TLS handshake

  // See TlsSession.
  std::vector<std::string> certificate_names() const {
    return tls ? tls->certificate_names() : std::vector<std::string>();
  }
};

// What a protocol's connection offers to its listener.
//
//   Shared           what the connections of a listener share in one event loop. Its `closed` is
//                    called when a connection has ended, which is then destroyed in a later turn of
//                    the loop; from the call on, nothing may call the connection. Its `complain`
//                    logs why a TLS handshake has failed, before `closed`
//   kRefusal         sent to a connection over the cap; may be empty
//   open()           starts a connection, or returns null and sets the error
//   tick()           closes the connection if it exceeds a timeout; called four times a second
//   drain()          makes the connection end soon, but not before its requests are answered
//   place            for use by the listener
template <typename C>
concept ListenedConnection = requires(C& connection, typename C::Shared& shared, Accepted& accepted,
                                      SteadyTime now, boost::system::error_code& why) {
  { C::kRefusal } -> std::convertible_to<std::string_view>;
  { C::open(accepted, shared, why) } -> std::same_as<std::unique_ptr<C>>;
  { connection.tick(now) } -> std::same_as<void>;
  { connection.drain(now) } -> std::same_as<void>;
  { connection.place } -> std::same_as<std::size_t&>;
  { shared.draining } -> std::same_as<bool&>;
  { shared.closed } -> std::same_as<std::function<void(C&)>&>;
  shared.complain = [](std::string_view, std::string_view) {};
};

// A protocol in one event loop: the handlers of its requests, and one listening address, whose
// connections it accepts and owns. The options of the connections say how handlers are made
// (`make`), and whether on fibers.
//
// Ownership: borrows what its arguments refer to.
template <ListenedConnection Connection>
class Listener final : public LoopFrontEnd {
 public:
  Listener(const typename Connection::Options& options, const Acceptor::Parts& parts,
           ListeningSocket socket)
      : loop_(parts.loop),
        clock_(parts.clock),
        tls_(parts.tls),
        handlers_(options.make, options.fibers),
        shared_(parts, options, handlers_),
        ticker_(parts.loop),
        acceptor_(with_refusal(parts), std::move(socket),
                  [this](int descriptor, const SocketAddress& peer) { accept(descriptor, peer); }) {
    shared_.closed = [this](Connection& connection) { close(connection); };
    shared_.complain = [this](auto what, auto why) { acceptor_.complain(what, why); };
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void follow_rules() override {
    handlers_.follow_rules();
    if constexpr (requires { shared_.follow_rules(); }) shared_.follow_rules();
  }

  void stop_accepting(Queued queued, std::function<void()> stopped) override {
    acceptor_.stop(queued, std::move(stopped));
  }

  // Stops accepting, takes the connections that the kernel has accepted already, and then lets all
  // connections finish their requests: a client that is asked to leave connects again at once, and
  // must not reach the socket that closes. Calls `drained` after the last one has closed.
  void drain(std::function<void()> drained) override {
    if (acceptor_.open()) {
      return stop_accepting(Queued::kAccept,
                            [this, drained = std::move(drained)] { drain(drained); });
    }
    drained_ = std::move(drained);
    shared_.draining = true;
    const SteadyTime now = clock_.now();
    for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->drain(now);
    finish_drain();
  }

 private:
  static Acceptor::Parts with_refusal(Acceptor::Parts parts) {
    parts.refusal = Connection::kRefusal;
    return parts;
  }

  static constexpr auto kTick = std::chrono::milliseconds(250);

  void accept(int descriptor, const SocketAddress& peer) {
    if (acceptor_.family() != AF_UNIX) {
      const int on = 1;
      ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if constexpr (requires { shared_.tick(); }) shared_.tick();
    boost::system::error_code why;
    Accepted accepted{descriptor, acceptor_.family(), peer, clock_.now()};
    if (tls_ != nullptr) accepted.tls = std::make_unique<TlsSession>(*tls_, descriptor);
    auto connection = Connection::open(accepted, shared_, why);
    if (!connection) {  // the system is out of resources
      acceptor_.closed();
      return acceptor_.complain("a connection was dropped", why.value());
    }
    connection->place = connections_.size();
    connections_.push_back(std::move(connection));
    if (shared_.draining) connections_.back()->drain(clock_.now());
    tick();
  }

  void close(Connection& connection) {
    const std::size_t place = connection.place;
    std::swap(connections_[place], connections_.back());
    connections_[place]->place = place;
    closed_.push_back(std::move(connections_.back()));
    connections_.pop_back();
    acceptor_.closed();
    if (closed_.size() > 1) return;
    boost::asio::post(loop_, [this] {
      closed_.clear();
      finish_drain();
    });
  }

  // Runs while there are connections.
  void tick() {
    if (std::exchange(ticking_, true)) return;
    ticker_.expires_after(kTick);
    ticker_.async_wait([this](const boost::system::error_code& why) {
      ticking_ = false;
      if (why || connections_.empty()) return;
      if constexpr (requires { shared_.tick(); }) shared_.tick();
      const SteadyTime now = clock_.now();
      // A connection that closes leaves its place to the last one, whose tick() has been called
      // already.
      for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->tick(now);
      tick();
    });
  }

  void finish_drain() {
    if (!drained_ || acceptor_.open() || !connections_.empty()) return;
    ticker_.cancel();
    boost::asio::post(loop_, std::exchange(drained_, nullptr));
  }

  boost::asio::io_context& loop_;
  const LoopClock& clock_;
  const TlsContext* const tls_;  // null: plaintext
  typename Connection::Handlers handlers_;
  typename Connection::Shared shared_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> closed_;  // destroyed in the next turn of the loop
  boost::asio::steady_timer ticker_;
  bool ticking_ = false;
  std::function<void()> drained_;
  Acceptor acceptor_;
};

}  // namespace sluice::server::net
