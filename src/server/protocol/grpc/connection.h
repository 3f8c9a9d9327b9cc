#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/config/role.h"
#include "server/net/connection.h"
#include "server/net/listener.h"
#include "server/protocol/grpc/message.h"
#include "server/protocol/grpc/protocol.h"

namespace sluice::server::grpc {

// A connection that speaks gRPC, without its socket: a Protocol and its timeouts. Takes events,
// returns actions.
//
// Output is made in pieces of about 64 KiB, each after the piece before it was sent. While output
// waits for room, the connection neither makes more nor reads. Cost: about 7 KiB while idle, 10 KiB
// after the first call, more if a client fills its table of header fields (at most 4 KiB as HTTP/2
// counts them) or had replies larger than 512 bytes; with TLS, also the memory of OpenSSL.
class ConnectionState final : public net::StreamState {
 public:
  using Action = net::Action;  // never kWait
  using Shared = SharedState;
  using Handlers = grpc::Handlers;
  using Peer = server::Peer;
  static constexpr std::string_view kRefusal = {};
  // SETTINGS, and GOAWAY with INADEQUATE_SECURITY and a text that clients report.
  static constexpr std::string_view kNeedsTls{
      "\0\0\0\4\0\0\0\0\0"
      "\0\0\x25\7\0\0\0\0\0\0\0\0\0\0\0\0\xc"
      "expected TLS on this listener",
      9 + 9 + 8 + 29};

  // Calls `act` with kSendSoon when there is output without an event.
  ConnectionState(Peer peer, SharedState& shared, net::Act act, SteadyTime now);

  Action on_input(std::string_view bytes, SteadyTime now);
  // The output to send. Valid until the next event.
  std::string_view output();
  // `size` bytes of output() were sent. If that is not all of it, the socket has no room, or is
  // broken.
  Action on_sent(std::size_t size, bool broken = false);
  Action on_room(SteadyTime now);
  // A few times a second there may be something to do.
  bool expired(SteadyTime) const noexcept { return true; }
  Action on_expired(SteadyTime now);
  // The server is draining: accepts no more calls after those that are on their way, and ends after
  // the last one.
  void on_drain(SteadyTime now);

 private:
  enum class Phase : std::uint8_t { kServing, kNoticed, kFinished, kLingering };

  bool takes_too_long(SteadyTime now);
  void check_age(SteadyTime now);
  void begin_end(SteadyTime now);

  SharedState& shared_;
  const Peer peer_;
  Protocol protocol_;
  std::string unsent_;
  SteadyTime started_;
  SteadyTime heard_;     // when input last arrived
  SteadyTime worked_;    // when there last was a complete call
  SteadyTime progress_;  // when output was last sent
  SteadyTime ending_{};  // when the current phase of the end began
  std::size_t calls_ = 0;
  Phase phase_ = Phase::kServing;
  bool waits_for_room_ = false;
  bool pinged_ = false;
};

// A connection that speaks gRPC.
using Connection = net::Connection<ConnectionState>;

// gRPC in one event loop.
using FrontEnd = net::Listener<Connection>;

}  // namespace sluice::server::grpc
