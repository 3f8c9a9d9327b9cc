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

// One complete call of a unary method. All views are of the transport's buffers and are valid until
// the handler returns.
struct Call {
  std::string_view path;                  // "/package.Service/Method"
  std::string_view message;               // decompressed, without its prefix
  std::string_view peer;                  // the peer's address as text; empty on a Unix socket
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

// The server's half of a bidirectional stream. Valid until its StreamIn is destroyed.
//
// Thread-safety: the loop's thread only. Ownership: the connection's.
class StreamOut {
 public:
  // Sends a message. Returns false, and sends nothing, if the stream has ended or the client leaves
  // too much unread; the stream has ended then.
  virtual bool send(std::string_view message) = 0;
  // Ends the stream after the messages that were sent.
  virtual void end(Code code, std::string_view text) = 0;

 protected:
  ~StreamOut() = default;
};

// The client's half of a bidirectional stream. It is destroyed when the stream is gone: the client
// has reset it, the connection is lost, or the server has ended it.
//
// Thread-safety: the loop's thread only.
class StreamIn {
 public:
  virtual ~StreamIn() = default;
  // A message, decompressed; valid during the call.
  virtual void on_message(std::string_view message) = 0;
  // The client sends no more messages, and reads on.
  virtual void on_half_close() {}
};

// Opens a stream. Null: it has ended the stream.
using OpenStream = std::function<std::unique_ptr<StreamIn>(const Call& call, StreamOut& out)>;

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

}  // namespace sluice::server::grpc
