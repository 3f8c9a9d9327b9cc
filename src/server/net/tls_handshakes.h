#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "metrics/metrics.h"
#include "server/net/loop_clock.h"
#include "server/net/socket_address.h"
#include "server/net/tls_session.h"

namespace sluice::server::net {

// The TLS handshakes of one listener's new connections in one event loop. They do not block the
// loop, and those that take too long are cut.
//
// Thread-safety: the loop's thread only, except for the constructor. Destroy it after the loop has
// stopped.
class TlsHandshakes {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The handshake, which began at `since`, is done. Takes ownership of the descriptor.
    virtual void secured(int descriptor, const SocketAddress& peer,
                         std::unique_ptr<TlsSession> session, SteadyTime since) = 0;
    // The connection was closed before that. `what` and `why` are for the log, empty if there is
    // nothing to say.
    virtual void refused(std::string_view what, std::string_view why) = 0;
  };
  struct Parts {
    boost::asio::io_context& loop;
    metrics::Recorder& recorder;
    const TlsContext& context;
    std::chrono::milliseconds timeout;  // for one handshake
    std::string_view plaintext_answer;  // to a client that does not use TLS; a literal
  };

  TlsHandshakes(const Parts& parts, Owner& owner) : parts_(parts), owner_(owner) {}

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

  const Parts parts_;
  Owner& owner_;
  std::vector<std::unique_ptr<Handshake>> all_;
};

}  // namespace sluice::server::net
