#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics.h"
#include "server/net/acceptor.h"
#include "server/net/listening_socket.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/socket_address.h"
#include "server/net/transport.h"

namespace sluice::server::net {

// The TLS handshakes of one listener's new connections in one event loop. They do not block the
// loop, and those that take too long are cut.
//
// Thread-safety: the loop's thread only, except for the constructor. Destroy it after the loop has
// stopped.
class TlsHandshakes {
 public:
  // The handshake, which began at `since`, is done. Takes ownership of the descriptor.
  using Secured = std::function<void(int descriptor, const SocketAddress& peer,
                                     std::unique_ptr<TlsSession> session, SteadyTime since)>;
  // The connection was closed before that. `what` and `why` are for the log, empty if there is
  // nothing to say.
  using Refused = std::function<void(std::string_view what, std::string_view why)>;

  // `listener` has TLS. `plaintext_answer` is for a client that does not use it; a literal.
  TlsHandshakes(const Acceptor::Parts& listener, std::string_view plaintext_answer, Secured secured,
                Refused refused)
      : loop_(listener.loop),
        recorder_(listener.recorder),
        context_(*listener.tls),
        timeout_(listener.handshake_timeout),
        plaintext_answer_(plaintext_answer),
        secured_(std::move(secured)),
        refused_(std::move(refused)) {}

  // Takes ownership of the descriptor.
  void start(int descriptor, const SocketAddress& peer, SteadyTime now);
  // Cuts the handshakes that exceeded the timeout. Called a few times a second.
  void tick(SteadyTime now);
  // Gives the handshakes only a short time to end.
  void drain(SteadyTime now);
  bool none() const noexcept { return all_.empty(); }

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  struct Handshake {
    Descriptor socket;
    SocketAddress peer;
    std::unique_ptr<TlsSession> session;
    SteadyTime began;
    SteadyTime deadline;
    std::size_t place = 0;
    bool expired = false;
  };

  void wait(Handshake& handshake, Descriptor::wait_type what);
  void go_on(Handshake& handshake);
  void succeed(Handshake& handshake);
  void fail(Handshake& handshake, std::string_view what);
  void answer_plaintext(Handshake& handshake) const;
  std::unique_ptr<Handshake> take(const Handshake& handshake);

  boost::asio::io_context& loop_;
  metrics::Recorder& recorder_;
  const TlsContext& context_;
  const std::chrono::milliseconds timeout_;  // for one handshake
  const std::string_view plaintext_answer_;
  const Secured secured_;
  const Refused refused_;
  std::vector<std::unique_ptr<Handshake>> all_;
};

// An accepted connection. The descriptor does not block; the receiver owns it.
struct Accepted {
  int descriptor;
  int family;
  const SocketAddress& peer;
  std::unique_ptr<TlsSession> tls = nullptr;  // null: plaintext

  // See TlsSession.
  std::vector<std::string> certificate_names() const {
    return tls ? tls->certificate_names() : std::vector<std::string>();
  }
};

// What a protocol's connection offers to its listener.
//
//   Shared           what the connections of a listener share in one event loop. Its `closed` is
//                    called when a connection has ended, which is then destroyed in a later turn of
//                    the loop; from the call on, nothing may call the connection
//   kRefusal         sent to a connection over the cap; may be empty
//   kNeedsTls        sent to a client without TLS if the listener has TLS; may be empty
//   open()           starts a connection, or returns null and sets the error
//   tick()           closes the connection if it exceeds a timeout; called four times a second
//   drain()          makes the connection end soon, but not before its requests are answered
//   place            for use by the listener
template <typename C>
concept ListenedConnection = requires(C& connection, typename C::Shared& shared, Accepted& accepted,
                                      SteadyTime now, boost::system::error_code& why) {
  { C::kRefusal } -> std::convertible_to<std::string_view>;
  { C::kNeedsTls } -> std::convertible_to<std::string_view>;
  { C::open(accepted, shared, now, why) } -> std::same_as<std::unique_ptr<C>>;
  { connection.tick(now) } -> std::same_as<void>;
  { connection.drain(now) } -> std::same_as<void>;
  { connection.place } -> std::same_as<std::size_t&>;
  { shared.draining } -> std::same_as<bool&>;
  { shared.closed } -> std::same_as<std::function<void(C&)>&>;
};

// A protocol in one event loop: the handlers of its requests, and one listening address, whose
// connections it accepts, whose TLS handshakes it does, and which it owns. The options of the
// connections say how handlers are made (`make`), and whether on fibers.
//
// Ownership: borrows what its arguments refer to.
template <ListenedConnection Connection>
class Listener final : public LoopFrontEnd {
 public:
  Listener(const typename Connection::Options& options, const Acceptor::Parts& parts,
           ListeningSocket socket)
      : loop_(parts.loop),
        clock_(parts.clock),
        handlers_(options.make, options.fibers),
        shared_(parts, options, handlers_),
        ticker_(parts.loop),
        acceptor_(with_refusal(parts), std::move(socket),
                  [this](int descriptor, const SocketAddress& peer) { accept(descriptor, peer); }) {
    shared_.closed = [this](Connection& connection) { close(connection); };
    if (parts.tls == nullptr) return;
    handshakes_.emplace(
        parts, Connection::kNeedsTls,
        [this](int descriptor, const SocketAddress& peer, std::unique_ptr<TlsSession> session,
               SteadyTime since) { open(descriptor, peer, std::move(session), since); },
        [this](std::string_view what, std::string_view why) { refuse(what, why); });
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
    if (handshakes_) handshakes_->drain(now);
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
    const SteadyTime now = clock_.now();
    if (!handshakes_) return open(descriptor, peer, nullptr, now);
    handshakes_->start(descriptor, peer, now);
    tick();
  }

  // A handshake has failed.
  void refuse(std::string_view what, std::string_view why) {
    acceptor_.closed();
    if (!what.empty()) acceptor_.complain(what, why);
    finish_drain();
  }

  // The timeouts of the connection count from `since`.
  void open(int descriptor, const SocketAddress& peer, std::unique_ptr<TlsSession> tls,
            SteadyTime since) {
    if constexpr (requires { shared_.tick(); }) shared_.tick();
    boost::system::error_code why;
    Accepted accepted{descriptor, acceptor_.family(), peer, std::move(tls)};
    auto connection = Connection::open(accepted, shared_, since, why);
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

  bool is_empty() const { return connections_.empty() && (!handshakes_ || handshakes_->none()); }

  // Runs while there are connections.
  void tick() {
    if (std::exchange(ticking_, true)) return;
    ticker_.expires_after(kTick);
    ticker_.async_wait([this](const boost::system::error_code& why) {
      ticking_ = false;
      if (why || is_empty()) return;
      if constexpr (requires { shared_.tick(); }) shared_.tick();
      const SteadyTime now = clock_.now();
      if (handshakes_) handshakes_->tick(now);
      // A connection that closes leaves its place to the last one, whose tick() has been called
      // already.
      for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->tick(now);
      tick();
    });
  }

  void finish_drain() {
    if (!drained_ || acceptor_.open() || !is_empty()) return;
    ticker_.cancel();
    boost::asio::post(loop_, std::exchange(drained_, nullptr));
  }

  boost::asio::io_context& loop_;
  const LoopClock& clock_;
  typename Connection::Handlers handlers_;
  typename Connection::Shared shared_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> closed_;  // destroyed in the next turn of the loop
  boost::asio::steady_timer ticker_;
  bool ticking_ = false;
  std::function<void()> drained_;
  std::optional<TlsHandshakes> handshakes_;  // if the listener has TLS
  Acceptor acceptor_;
};

}  // namespace sluice::server::net
