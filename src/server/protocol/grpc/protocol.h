#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metrics.h"
#include "server/net/bounds.h"
#include "server/net/connection.h"
#include "server/net/listener.h"
#include "server/net/poller.h"
#include "server/net/readiness.h"
#include "server/protocol/grpc/framing.h"
#include "server/protocol/grpc/message.h"

namespace sluice::server::grpc {

// The memory of the nghttp2 sessions of one event loop. Small blocks are kept and used again. The
// large blocks of a session are placed so that the parts an idle session does not use take no
// memory.
//
// A session allocates itself (about 3 KB), a table of its streams (4 KB) and a frame buffer (16 KB)
// at once. An idle session needs only the first. The three blocks share a slot of six pages: the
// session with the beginning of the buffer, the rest of the buffer, and the table. Pages that were
// never written take no memory. Allocations of other sizes get blocks of their own. This layout
// changes only the memory that a session takes, not its behaviour.
//
// Thread-safety: the loop's thread only. Ownership: must outlive the sessions. Small blocks are
// returned to the system when the object is destroyed, sessions at once. Cost: about ten
// instructions for a block.
class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For nghttp2_session_server_new3(). Returns null, which selects nghttp2's own allocator, in
  // builds with a sanitizer that should see each block.
  nghttp2_mem* get() noexcept;

  // Call it when the session has nothing to do. Returns an unused table to the system. Cost: at
  // most one system call.
  static void idle(nghttp2_session* session) noexcept;

  // The allocation functions of nghttp2. They return null if there is no memory.
  void* allocate(std::size_t size) noexcept;
  void* allocate_zeros(std::size_t size) noexcept;
  void* reallocate(void* block, std::size_t size) noexcept;
  void release(void* block) noexcept;

 private:
  struct Head;

  static constexpr std::size_t kStep = 16;
  static constexpr std::size_t kMostSmall = 1040;

  void* take_small(std::size_t place) noexcept;
  void* take_from_heap(std::size_t size) noexcept;
  void* take_slot(std::size_t size) noexcept;
  void* take_part(std::size_t size, bool zeros) noexcept;
  std::byte* new_slot() noexcept;
  void drop_part(std::byte* slot) noexcept;

  std::array<void*, kMostSmall / kStep + 1> free_{};  // the head of each list
  std::byte* next_ = nullptr;                         // in the chunk of small blocks
  std::size_t left_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> regions_;  // of slots
  std::vector<std::byte*> slots_;                                // the free slots
  std::byte* young_ = nullptr;  // the slot of the session that is being created
  nghttp2_mem interface_;
};

class Protocol;
class Streams;
struct Stream;

// The kind of a call's method.
enum class Method : std::uint8_t {
  kNone,   // no such method
  kUnary,  // answered by the handler
  kHealthCheck,
  kStream,  // has a StreamIn
};

// The state of a stream that is cleared before the stream is used again.
struct StreamState {
  Protocol* protocol = nullptr;  // null: the stream has been closed
  Stream* next = nullptr;        // of the connection's open streams
  Stream* previous = nullptr;
  std::int32_t id = 0;
  Method method = Method::kNone;
  Code code = Code::kOk;  // the call's final status
  bool is_post = false;
  bool is_grpc = false;       // according to its content-type
  bool bad_timeout = false;   // grpc-timeout is malformed
  bool gzip = false;          // grpc-encoding is gzip
  bool bad_encoding = false;  // grpc-encoding is something else
  bool opened = false;        // the header is complete
  bool whole = false;         // the client has sent everything
  bool in_work = false;       // a handler answers it, or will
  bool begun = false;         // a response was submitted
  bool ended = false;         // nothing follows what `out` holds
  bool used = false;          // of kStream: a message arrived
  bool half_closed = false;   // of kStream: its StreamIn knows that the client has sent everything
  bool was_full = false;      // at the last tick; see full()
  std::size_t header_bytes = 0;
  std::size_t buffered = 0;                 // the counted bytes of `in`
  std::size_t in_done = 0;                  // the processed bytes of `in`
  std::size_t unconsumed = 0;               // input for which the client was not given new room
  std::size_t counted = 0;                  // the counted bytes of `out`
  std::size_t out_done = 0;                 // the sent bytes of `out`
  SteadyTime began{};                       // when what is waited for began
  SteadyTime deadline = SteadyTime::max();  // set by the client
  Call call;
};

// One call of a connection, with its buffers. Streams are kept and used again; see Streams.
struct Stream final : Handlers::Task, StreamOut, StreamState {
  void work(Handler& handler) override { handler.handle(call, handler.reply); }
  bool finish(Handler& handler) override;
  bool wanted() const override { return protocol != nullptr && !ended; }
  void dropped() override;
  bool send(std::string_view message) override;
  void end(Code why, std::string_view what) override;
  std::size_t unread() const override { return out.size() - out_done; }
  // Returns whether the client leaves so much unread that its next messages wait.
  bool full() const;
  std::string_view input() const { return std::string_view(in).substr(in_done); }
  // Copies the next bytes of `out`, at most `room`. Returns how many.
  std::size_t read(char* to, std::size_t room);
  // Drops processed input.
  void drop_done();
  // Counts the bytes of `out` among those of all connections.
  void count();
  // Releases larger buffers.
  void clear(std::size_t most_kept);

  std::string in;        // the input
  std::string inflated;  // the decompressed message
  std::string out;       // messages with their prefixes
  std::string text;      // grpc-message, encoded
  std::string peer;      // for a call that may outlive its connection
  std::string authorization;
  std::string traceparent;
  std::unique_ptr<StreamIn> receiver;  // of kStream
  Streams* home = nullptr;
};

// The unused streams of one event loop.
class Streams {
 public:
  Stream& take();
  void give_back(Stream& stream);
  std::size_t in_use() const noexcept { return all_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<Stream>> all_;
  std::vector<Stream*> free_;
};

}  // namespace sluice::server::grpc

struct nghttp2_session;

namespace sluice::server::grpc {

// What a front end serves.
struct Options {
  const Bounds& bounds;
  std::vector<std::string_view> paths;              // the handler's methods; literals
  std::vector<std::string_view> stream_paths = {};  // likewise, of open_stream
  OpenStream open_stream = {};                      // if there are stream_paths
  std::size_t most_streams = 1024;                  // concurrent calls of a connection
  std::chrono::milliseconds max_age{0};  // then a connection accepts no more calls; 0: no limit
  const net::Readiness& serving;         // what Health reports
  std::function<std::unique_ptr<Handler>()> make = {};
  std::optional<net::FiberPool::Options> fibers = {};  // if handlers may wait
  RoleOfCertificate role_of_certificate = {};          // for clients with certificates
};

// The state that the connections of one listener share in one event loop. Used by that loop's
// thread only.
struct SharedState : Options {
  Peer peer_of(const net::Accepted& accepted) const {
    return {accepted.peer.text(), role_of(accepted.certificate_names(), role_of_certificate)};
  }
  SteadyTime time_of_event(const net::Poller&) const { return clock.now(); }

  Handlers& handlers;
  metrics::Recorder& recorder;
  const net::LoopClock& clock;
  bool draining = false;
  std::unique_ptr<Memory> memory = std::make_unique<Memory>();  // of the sessions
  Streams streams = {};
  // Bytes of incomplete calls and of unread replies, of all connections.
  std::size_t buffered = 0;
  Reply reply = {};
  std::string output = {};  // of the connection that sends
};

// One connection that speaks gRPC over HTTP/2, without its socket: takes bytes and returns bytes.
//
// Thread-safety: the loop's thread only. Ownership: borrows the shared state; calls in progress may
// outlive the connection. Bounds: concurrent calls, bytes of a header, of a message and of all
// incomplete messages, frames that carry no work. Cost: about 1.5 µs for a call in addition to the
// handler.
class Protocol {
 public:
  // Calls `has_output` when there is output that was not made by take().
  Protocol(SharedState& shared, std::string_view peer, std::function<void()> has_output,
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
  // has had time to read it, finish(). Calls in progress continue; streams learn of the notice and
  // are ended by finish().
  void notice();
  void finish();

  // Returns whether the client has sent its connection preface.
  bool has_preface() const noexcept { return has_preface_; }
  std::size_t open_streams() const noexcept { return open_; }
  // Returns whether there was a complete call without its whole response, or a stream in use, at
  // the last tick().
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
  void answered(Stream& stream, Handler& handler);
  void describe(Stream& stream) const;
  void open_stream(Stream& stream);
  void deliver(Stream& stream);
  void deliver_held();
  void consume(Stream& stream);
  void respond(Stream& stream);
  void refuse(Stream& stream, std::string_view status, std::string_view text);
  void end(Stream& stream, Code code, std::string_view text);
  void forget_input(Stream& stream);
  void check(Stream& stream);
  bool late(const Stream& stream) const;
  bool stalled() const;
  void spend(int cost);
  void earn(int gain);

  SharedState& shared_;
  const std::function<void()> has_output_;
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
  bool noticed_ = false;
  bool drained_ = false;  // a stream is no longer full
};

}  // namespace sluice::server::grpc
