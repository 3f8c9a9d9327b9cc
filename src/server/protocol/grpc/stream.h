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

// What a call is for.
enum class Method : std::uint8_t {
  kNone,   // no such method
  kUnary,  // answered by the handler
  kHealthCheck,
  kHealthWatch,
  kReflection,
};

// What is forgotten of a stream when it is used again.
struct StreamState {
  Protocol* protocol = nullptr;  // null: the stream has been closed
  Stream* next = nullptr;        // of the connection's open streams
  Stream* previous = nullptr;
  std::int32_t id = 0;
  Method method = Method::kNone;
  Code code = Code::kOk;  // how it ended
  bool is_post = false;
  bool is_grpc = false;       // by its content-type
  bool bad_timeout = false;   // grpc-timeout is malformed
  bool gzip = false;          // grpc-encoding says so
  bool bad_encoding = false;  // grpc-encoding says something else
  bool opened = false;        // its header is whole
  bool whole = false;         // the client has sent everything
  bool asking = false;        // a handler is at it, or will be
  bool begun = false;         // a response was submitted
  bool ended = false;         // and nothing comes after what `out` holds
  bool known = false;         // of a Watch: a service that is there
  bool serving_seen = false;  // and what it was told last
  std::size_t header_bytes = 0;
  std::size_t buffered = 0;  // how much of `in` is counted
  std::size_t unread = 0;    // and of `out`
  std::size_t out_done = 0;  // how much of `out` has been sent
  SteadyTime began{};
  SteadyTime deadline = SteadyTime::max();  // the client's
  Call asked;
};

// One call of a connection, with its buffers. Streams are kept and used again: see Streams.
struct Stream final : Handlers::Task, StreamState {
  void work(Worker& worker) override { worker.handler->handle(asked, worker.reply); }
  bool finish(Worker& worker) override;
  bool wanted() const override { return protocol != nullptr && !ended; }
  void dropped() override;
  // Buffers that are larger are given back.
  void clear(std::size_t most_kept);

  std::string in;        // what arrived
  std::string inflated;  // its message, where it was compressed
  std::string out;       // messages with their prefixes
  std::string text;      // grpc-message, encoded
  std::string peer;      // for a call that may outlive its connection
  Streams* home = nullptr;
};

// Streams that are not in use. One for an event loop.
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
