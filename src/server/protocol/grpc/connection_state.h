#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/net/loop_clock.h"
#include "server/protocol/grpc/protocol.h"

namespace sluice::server::grpc {

// The most time that a connection may live, in addition to Bounds.
struct Ages {
  std::chrono::milliseconds most{0};  // then it accepts no more calls; 0: no limit
};

// What the connections of one listener share in one event loop. Used by that loop's thread only.
struct SharedState : ProtocolShared {
  Ages ages = {};
  std::string output = {};  // of the connection that sends
};

// A connection that speaks gRPC, without its socket: a Protocol and its timeouts. Takes events,
// returns actions.
//
// Output is made in pieces of about 64 KiB, each after the piece before it was sent. While output
// waits for room, the connection neither makes more nor reads. Cost: see Connection.
class ConnectionState {
 public:
  // What the socket must do next.
  enum class Action : std::uint8_t {
    kReceive,     // wait for input, then on_ready() and on_input()
    kSend,        // send output(), as far as it goes without waiting, then on_sent()
    kWaitToSend,  // wait for room, then on_room()
    kHalfClose,   // send the end of the stream, then as kReceive
    kClose,
  };
  using Owner = Protocol::Owner;

  ConnectionState(std::string peer, SharedState& shared, Owner& owner, SteadyTime now,
                  Role certificate_role = Role::kNobody);

  // The socket is ready to be read. If it has bytes, on_input() follows.
  void on_ready(SteadyTime now) { heard_ = now; }
  Action on_input(std::string_view bytes);
  // Owner::has_output() was called.
  Action on_output() const;
  // The output to send. Valid until the next event.
  std::string_view output();
  // `size` bytes of output() were sent. If that is not all of it, the socket has no room.
  Action on_sent(std::size_t size);
  Action on_room();
  // Called a few times a second.
  Action on_tick(SteadyTime now);
  // The server is draining: accepts no more calls after those that are on their way, and ends after
  // the last one.
  Action on_drain(SteadyTime now);

  // Returns whether input must not be read until on_room().
  bool waits_for_room() const noexcept { return waits_for_room_; }
  // Returns whether the end of the stream was sent, so that input is discarded.
  bool lingers() const noexcept { return phase_ == Phase::kLingering; }

 private:
  enum class Phase : std::uint8_t { kServing, kNoticed, kFinished, kLingering };

  bool expired(SteadyTime now);
  void check_age(SteadyTime now);
  void begin_end(SteadyTime now);

  SharedState& shared_;
  const std::string peer_;
  Protocol protocol_;
  std::string unsent_;
  SteadyTime started_;
  SteadyTime heard_;     // when input last arrived
  SteadyTime worked_;    // when there last was a complete call
  SteadyTime progress_;  // when output was last sent
  SteadyTime ending_{};  // when the current phase of the end began
  std::size_t calls_ = 0;
  std::size_t lingered_ = 0;
  Phase phase_ = Phase::kServing;
  bool waits_for_room_ = false;
  bool pinged_ = false;
};

}  // namespace sluice::server::grpc
