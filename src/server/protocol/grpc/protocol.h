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

// The state that the connections of one listener share in one event loop. Used by that loop's
// thread only.
struct ProtocolShared {
  const Bounds& bounds;
  std::size_t most_streams;  // concurrent calls of a connection
  Handlers& handlers;
  std::vector<std::string_view> paths;  // the handler's methods; literals
  metrics::Recorder& recorder;
  const std::atomic<bool>& serving;  // what Health reports
  const net::LoopClock& clock;
  std::unique_ptr<Memory> memory = std::make_unique<Memory>();  // of the sessions
  Streams streams = {};
  // Bytes of incomplete calls and of unread replies, of all connections.
  std::size_t buffered = 0;
  Reply reply = {};
};

// One connection that speaks gRPC over HTTP/2, without its socket: takes bytes and returns bytes.
//
// Thread-safety: the loop's thread only. Ownership: borrows the shared state; calls in progress may
// outlive the connection. Bounds: concurrent calls, bytes of a header, of a message and of all
// incomplete messages, frames that carry no work. Cost: about 1.5 µs for a call in addition to the
// handler.
class Protocol {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // There is output that was not made by take().
    virtual void has_output() = 0;
  };

  Protocol(ProtocolShared& shared, std::string_view peer, Owner& owner,
           Role certificate_role = Role::kNobody);
  ~Protocol();
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;

  // Processes input that arrived at `now`. Returns false if the connection must end after its
  // output is sent.
  bool take(std::string_view bytes, SteadyTime now);
  // Appends output until there is no more or `out` has `most` bytes.
  void write(std::string& out, std::size_t most);
  // Returns whether nothing more will be sent or received.
  bool ended() const;

  // Ends calls that have timed out. Called a few times a second.
  void tick(SteadyTime now);
  // Sends a PING to check whether the client is alive.
  void ping();
  // Asks the client to send its next calls elsewhere. Call notice() first, then, after the client
  // has had time to read it, finish(). Calls in progress continue.
  void notice();
  void finish();

  // Returns whether the client has sent its connection preface.
  bool has_preface() const noexcept { return has_preface_; }
  std::size_t open_streams() const noexcept { return open_; }
  // Returns whether there was a complete call without its whole response at the last tick().
  bool busy() const noexcept { return busy_; }
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
  void submit(Stream& stream);
  void answered(Stream& stream, const Reply& reply, Handler& handler);
  void reflect(Stream& stream);
  void watch(Stream& stream, std::string_view message);
  void report_health(Stream& stream);
  void respond(Stream& stream);
  void refuse(Stream& stream, std::string_view status, std::string_view text);
  void end(Stream& stream, Code code, std::string_view text);
  void forget_input(Stream& stream);
  void check(Stream& stream);
  bool late(const Stream& stream) const;
  bool stalled() const;
  void spend(int cost);
  void earn(int gain);

  ProtocolShared& shared_;
  Owner& owner_;
  std::string_view peer_;
  const Role certificate_role_;
  nghttp2_session* session_ = nullptr;  // created with the first byte
  Stream* first_ = nullptr;             // open streams
  Stream* recent_ = nullptr;            // the last one that was looked up
  std::string raw_;                     // the reply to a client that speaks another protocol
  SteadyTime now_{};
  SteadyTime answered_{};  // when the previous reply was made
  std::size_t open_ = 0;
  std::size_t calls_ = 0;
  int frame_budget_;    // frames without work that the client may still send
  int idle_ticks_ = 0;  // ticks since something arrived
  FrameScanner frames_;
  bool has_preface_ = false;
  bool inside_ = false;
  bool broken_ = false;
  bool terminated_ = false;  // has sent the last GOAWAY because of an error
  bool busy_ = false;
};

}  // namespace sluice::server::grpc
