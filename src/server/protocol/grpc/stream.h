#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/grpc/handlers.h"

namespace sluice::server::grpc {

class Protocol;
class Streams;
struct Stream;

// The kind of a call's method.
enum class Method : std::uint8_t {
  kNone,   // no such method
  kUnary,  // answered by the handler
  kHealthCheck,
  kHealthWatch,
  kReflection,
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
  bool known = false;         // of a Watch: the service exists
  bool serving_seen = false;  // of a Watch: the status that was last reported
  std::size_t header_bytes = 0;
  std::size_t buffered = 0;  // the counted bytes of `in`
  std::size_t unread = 0;    // the counted bytes of `out`
  std::size_t out_done = 0;  // the sent bytes of `out`
  SteadyTime began{};
  SteadyTime deadline = SteadyTime::max();  // set by the client
  Call call;
};

// One call of a connection, with its buffers. Streams are kept and used again; see Streams.
struct Stream final : Handlers::Task, StreamState {
  void work(Worker& worker) override { worker.handler->handle(call, worker.reply); }
  bool finish(Worker& worker) override;
  bool wanted() const override { return protocol != nullptr && !ended; }
  void dropped() override;
  // Releases larger buffers.
  void clear(std::size_t most_kept);

  std::string in;        // the input
  std::string inflated;  // the decompressed message
  std::string out;       // messages with their prefixes
  std::string text;      // grpc-message, encoded
  std::string peer;      // for a call that may outlive its connection
  std::string authorization;
  std::string traceparent;
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
