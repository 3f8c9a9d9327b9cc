#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/config/role.h"
#include "server/net/loop_clock.h"
#include "server/net/worker_pool.h"

namespace sluice::server::grpc {

using net::SteadyTime;

// The status of a call. The values are gRPC's numbers.
enum class Code : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// One complete call of a unary method, or the beginning of a stream. All views are of the
// transport's buffers and are valid until the handler or OpenStream returns.
struct Call {
  std::string_view path;                  // "/package.Service/Method"
  std::string_view message;               // decompressed, without its prefix; of a stream: empty
  std::string_view peer;                  // the peer's address as text, with its port
  std::string_view authorization;         // the client's metadata of that name; empty: none
  std::string_view traceparent;           // likewise
  Role certificate_role = Role::kNobody;  // of the client with this certificate, if one is known
  SteadyTime deadline = SteadyTime::max();
};

// The reply to a call. The handler fills in an empty one; its buffers are reused.
struct Reply {
  Code code = Code::kOk;
  std::string bytes;  // the message if the code is kOk
  std::string text;   // the error text otherwise; any bytes

  void fail(Code why, std::string_view what) {
    code = why;
    text.assign(what);
  }
  void clear() {
    code = Code::kOk;
    bytes.clear();
    text.clear();
  }
};

// Answers the calls of a listener. There is one handler for each event loop, called by that loop's
// thread only, or one for each call in progress if it may wait.
class Handler {
 public:
  virtual ~Handler() = default;
  // Answers a call whose path is one of the listener's paths.
  virtual void handle(const Call& call, Reply& reply) = 0;
  // The reply was handed over, `took` after the call was read.
  virtual void finished(const Call& call, const Reply& reply, std::chrono::nanoseconds took) = 0;
  // Releases rules that are no longer active. Called while there are no calls.
  virtual void follow_rules() {}

  // Clears the reply after a call, and releases larger buffers.
  void recycle() {
    constexpr std::size_t kMostKept = std::size_t{64} << 10;
    reply.clear();
    if (reply.bytes.capacity() > kMostKept) reply.bytes = std::string();
  }

  Reply reply;  // to the call that is being answered
};

using Handlers = net::WorkerPool<Handler>;

// The server's side of an open stream: messages to its client.
//
// Thread-safety: the loop's thread only, at any time, also outside the functions of StreamIn; other
// threads post to the loop. Ownership: the transport's. Valid until the stream's StreamIn is
// destroyed; without a StreamIn, until OpenStream returns. Cost of send(): a copy of the message.
// Messages that are sent in one turn of the loop leave together.
class StreamOut {
 public:
  // Sends a message. Returns false, and sends nothing, if the stream has ended or if the client
  // leaves too much unread (256 KiB in this stream, or 64 MiB in all connections of the loop). A
  // single message may be larger than that.
  virtual bool send(std::string_view message) = 0;
  // Ends the stream with that status after the messages that were sent. No message arrives any
  // more. `text` is for a code other than kOk; any bytes. Does nothing if the stream has ended.
  virtual void end(Code code, std::string_view text) = 0;
  // Returns the bytes of messages, with their prefixes of 5 bytes, that still wait for the client.
  virtual std::size_t unread() const = 0;

 protected:
  ~StreamOut() = default;
};

// The client's side of an open stream. The transport calls these functions in the loop's thread.
// They may send and end the stream.
//
// The destructor is called when the stream is gone: soon after it was ended by either side (at the
// latest a quarter of a second later), was reset, exceeded its deadline, or lost its connection.
// What the destructor sends is discarded.
class StreamIn {
 public:
  virtual ~StreamIn() = default;
  // A message, decompressed and without its prefix. The view is valid until the function returns.
  // While the client leaves too much unread, its next messages wait, and so does the client.
  virtual void on_message(std::string_view message) = 0;
  // The client sends no more messages. A stream that needs no more of them should end here.
  virtual void on_half_close() = 0;
  // The connection ends soon, because it is old or the server stops. The stream may end with kOk,
  // or with kUnavailable so that the client opens it again elsewhere. Half a second later the
  // transport ends it with kUnavailable.
  virtual void on_drain() {}
  // Called about four times a second.
  virtual void on_tick() {}
};

// Opens the stream of a call whose path is one of the listener's stream paths. There is one for
// each event loop, called by that loop's thread only. To refuse the call, ends the stream and
// returns null.
using OpenStream = std::function<std::unique_ptr<StreamIn>(const Call&, StreamOut&)>;

}  // namespace sluice::server::grpc
