#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metrics.h"
#include "server/net/bounds.h"
#include "server/protocol/grpc/framing.h"
#include "server/protocol/grpc/handlers.h"
#include "server/protocol/grpc/memory.h"
#include "server/protocol/grpc/message.h"
#include "server/protocol/grpc/stream.h"

struct nghttp2_session;

namespace sluice::server::grpc {

// What the connections of one listener share in one event loop. Used by that loop's thread only.
struct ProtocolShared {
  const Bounds& bounds;
  std::size_t most_streams;  // calls of a connection at the same time
  Handlers& handlers;
  std::vector<std::string_view> paths;  // of the handler's methods; literals
  metrics::Recorder& recorder;
  const std::atomic<bool>& serving;  // what Health reports
  const net::LoopClock& clock = net::LoopClock::system();
  std::unique_ptr<Memory> memory = std::make_unique<Memory>();  // of the sessions
  Streams streams = {};
  // Bytes of calls that are not whole yet, and of answers that were not read, of all connections.
  std::size_t buffered = 0;
  Reply reply = {};
};

// One connection that speaks gRPC over HTTP/2, without its socket: bytes in, bytes out.
//
// Thread-safety: the loop's thread only. Ownership: borrows what is shared; calls that are under
// way may outlive it. Bounds: calls at once, bytes of a header, of a message, of all messages that
// are not whole, frames that bring no work. Cost: some 1.5 µs a call beside the handler's.
class Protocol {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // There is output, of an answer that came outside of take().
    virtual void has_output() = 0;
  };

  Protocol(ProtocolShared& shared, std::string_view peer, Owner& owner);
  ~Protocol();
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;

  // Takes what arrived at `now`. False where the connection is to end once the output is sent.
  bool take(std::string_view bytes, SteadyTime now);
  // Appends what is to be sent, until there is no more or `out` has `most` bytes.
  void write(std::string& out, std::size_t most);
  // Whether nothing more will be said or heard.
  bool ended() const;

  // Ends calls whose time is over. Called some times a second.
  void tick(SteadyTime now);
  // Asks for a sign of life.
  void ping();
  // The client is to take its next calls elsewhere: first notice(), then, when the client may be
  // expected to know, finish(); the calls that there are go on.
  void notice();
  void finish();

  // Whether the client has said what it speaks.
  bool greeted() const noexcept { return greeted_; }
  std::size_t open_streams() const noexcept { return open_; }
  std::size_t calls() const noexcept { return calls_; }

 private:
  friend struct Stream;
  friend struct Callbacks;

  bool begin(std::string_view bytes);
  Stream* open(std::int32_t id);
  void close(Stream& stream);
  bool on_header(Stream& stream, std::string_view name, std::string_view value);
  void on_grpc_header(Stream& stream, std::string_view name, std::string_view value);
  void find(Stream& stream, std::string_view path) const;
  void opened(Stream& stream);
  void on_data(Stream& stream, std::string_view bytes);
  void on_whole(Stream& stream);
  bool take_message(Stream& stream, std::string_view& message);
  bool check_prefix(Stream& stream);
  void call(Stream& stream, std::string_view message);
  void ask(Stream& stream);
  void answered(Stream& stream, const Reply& reply, Handler& handler);
  void reflect(Stream& stream);
  void watch(Stream& stream, std::string_view message);
  void tell_health(Stream& stream);
  void respond(Stream& stream);
  void refuse(Stream& stream, std::string_view status, std::string_view text);
  void end(Stream& stream, Code code, std::string_view text);
  void forget_input(Stream& stream);
  bool late(const Stream& stream) const;
  void spend(int cost);
  void earn(int gain);

  ProtocolShared& shared_;
  Owner& owner_;
  std::string_view peer_;
  nghttp2_session* session_ = nullptr;  // from the first byte
  Stream* first_ = nullptr;             // open streams
  Stream* recent_ = nullptr;            // the one that was asked for last
  std::string raw_;                     // what is said to who speaks something else
  SteadyTime now_{};
  SteadyTime answered_{};  // when the answer before this one was made
  std::size_t open_ = 0;
  std::size_t calls_ = 0;
  int calm_;
  int quiet_ = 0;  // ticks since something arrived
  FrameCount frames_;
  bool greeted_ = false;
  bool inside_ = false;
  bool broken_ = false;
  bool upset_ = false;  // has told a client to calm down
};

}  // namespace sluice::server::grpc
