#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/net/loop_clock.h"

namespace sluice::server::grpc {

using net::SteadyTime;

// The status of a call, by gRPC's numbers.
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

// One call of a unary method, read whole. All views lie in the transport's buffers, and end with
// the handler's return.
struct Call {
  std::string_view path;     // "/package.Service/Method"
  std::string_view message;  // decompressed, without its prefix
  std::string_view peer;     // the peer's address as text; empty on a Unix socket
  SteadyTime deadline = SteadyTime::max();
};

// What is answered. A handler fills in one that is empty; its buffers are used again.
struct Reply {
  Code code = Code::kOk;
  std::string bytes;  // the message, where the code is kOk
  std::string text;   // what went wrong, where it is not; any bytes

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

// What stands behind a listener: one for each event loop, called by that loop's thread only; or one
// for each call that is under way, where it may wait (see workers.h).
class Handler {
 public:
  virtual ~Handler() = default;
  // Answers a call of a path that the listener was told of.
  virtual void handle(const Call& call, Reply& reply) = 0;
  // The answer was handed over, `took` after the call was read.
  virtual void finished(const Call& call, const Reply& reply, std::chrono::nanoseconds took) = 0;
  // Lets go of rules that are no longer in force, while there are no calls.
  virtual void follow_rules() {}
};

}  // namespace sluice::server::grpc
