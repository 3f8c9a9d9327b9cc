#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/net/acceptor.h"
#include "server/net/connection.h"
#include "server/net/fiber.h"
#include "server/net/listener.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/readiness.h"
#include "server/net/transport.h"
#include "server/protocol/grpc/message.h"
#include "server/protocol/grpc/protocol.h"

namespace sluice::server::grpc {

// A connection that speaks gRPC, without its socket: a Protocol and its timeouts. Takes events,
// returns actions.
//
// Output is made in pieces of about 64 KiB, each after the piece before it was sent. While output
// waits for room, the connection neither makes more nor reads. Cost: see Connection.
class ConnectionState {
 public:
  using Action = net::Action;  // never kWait; before on_input() comes on_ready()

  // Calls `has_output` when on_output() must follow.
  ConnectionState(std::string peer, SharedState& shared, std::function<void()> has_output,
                  SteadyTime now, Role certificate_role = Role::kNobody);

  // The socket is ready to be read. If it has bytes, on_input() follows.
  void on_ready(SteadyTime now) { heard_ = now; }
  Action on_input(std::string_view bytes);
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

// A connection that speaks gRPC: the socket of a ConnectionState.
//
// Cost: about 7 KiB while idle, 10 KiB after the first call, more if a client fills its table of
// header fields (at most 4 KiB as HTTP/2 counts them) or had replies larger than 512 bytes; with
// TLS, also the memory of OpenSSL. Bytes that arrive together cost one wait, one read and one
// write.
class Connection final {
 public:
  using Options = grpc::Options;
  using Handlers = grpc::Handlers;
  struct Shared : SharedState {
    Shared(const net::Acceptor::Parts& accept, const Options& options, Handlers& of_loop)
        : SharedState{options, of_loop, accept.recorder, accept.clock}, loop(accept.loop) {}

    boost::asio::io_context& loop;
    bool draining = false;
    std::function<void(Connection&)> closed;                       // see net::ListenedConnection
    std::string input = std::string(std::size_t{64} << 10, '\0');  // of the connection that reads
    std::vector<Connection*> to_flush = {};                        // in this turn of the loop
    std::vector<Connection*> flushing = {};
  };
  static constexpr std::string_view kRefusal = {};
  // SETTINGS, and GOAWAY with INADEQUATE_SECURITY and a text that clients report.
  static constexpr std::string_view kNeedsTls{
      "\0\0\0\4\0\0\0\0\0"
      "\0\0\x25\7\0\0\0\0\0\0\0\0\0\0\0\0\xc"
      "expected TLS on this listener",
      9 + 9 + 8 + 29};

  // See net::Listener.
  static std::unique_ptr<Connection> open(net::Accepted& accepted, Shared& shared, SteadyTime now,
                                          boost::system::error_code& why);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void tick(SteadyTime now);
  void drain(SteadyTime now);

  std::size_t place = 0;

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Action = ConnectionState::Action;

  Connection(Socket socket, net::Accepted& accepted, Role role, Shared& shared, SteadyTime now);
  static void flush_all(Shared& shared);
  void has_output();
  void flush();
  void act(Action action);
  Action send_all(Action action);
  Action send();
  void wait_for_input();
  void wait_for_room();
  template <typename Then>
  void wait(Socket::wait_type what, bool& waits, Then then);
  void read();
  void close();
  void report_end();

  Socket socket_;
  net::Transport transport_;
  Shared& shared_;
  ConnectionState state_;
  bool reading_ = false;  // waits for input
  bool writing_ = false;  // waits for room
  bool dead_ = false;
  bool flushing_ = false;  // is in Shared::to_flush
};

// gRPC in one event loop.
using FrontEnd = net::Listener<Connection>;

}  // namespace sluice::server::grpc
