#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/http/message.h"

namespace sluice::server::http {

struct ReaderBounds {
  std::size_t header_bytes;
  std::size_t body_bytes;
};

// Why a request cannot be taken, as the client is told. The connection ends with it.
struct BadRequest {
  int status = 400;
  std::string_view detail;
};

// Reads one HTTP/1.0 or 1.1 request after another out of bytes as they arrive; no input or output
// of its own. Refuses what two readers could understand differently: Content-Length together with
// Transfer-Encoding, codings other than `chunked`, folded fields, a request without Host.
//
// Not thread-safe. Ownership: a whole request is views of the bytes that were given last. Cost:
// each byte is looked at once, but for a header that arrives in pieces; bodies are copied only
// where they come in chunks.
class RequestReader {
 public:
  enum class Progress { kMore, kWhole, kBad };

  explicit RequestReader(const ReaderBounds& bounds);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Goes on with `message`: all bytes from the first of the request on, those that were shown
  // before included (they may have moved). After kWhole: request() and size(), then next().
  Progress read(std::string_view message);
  // How many bytes of the message the whole request took.
  std::size_t size() const noexcept;
  // The request; its `peer` is left to the caller.
  Request request() const;
  const BadRequest& bad() const noexcept;

  // Whether bytes of a request have arrived; whether its header is whole.
  bool started() const noexcept;
  bool has_header() const noexcept;
  // Whether the client waits to be told to go on (Expect: 100-continue) before it sends the body.
  bool expects_continue() const noexcept;

  // Makes ready for the next request.
  void next();

 private:
  struct Parts;
  class Parser;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server::http
