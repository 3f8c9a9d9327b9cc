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

// The reason why a request is refused, as the client sees it. The connection ends after it.
struct BadRequest {
  int status = 400;
  std::string_view detail;
};

// Reads HTTP/1.0 and 1.1 requests from bytes as they arrive. Does no input or output. Refuses
// requests that two readers could understand differently: Content-Length together with
// Transfer-Encoding, codings other than `chunked`, folded fields, a request without Host.
//
// Not thread-safe. Ownership: a complete request consists of views of the bytes that were passed
// last. Cost: reads each byte once, except for a header that arrives in pieces; copies a body only
// if it comes in chunks.
class RequestReader {
 public:
  enum class Progress { kMore, kWhole, kBad };

  explicit RequestReader(const ReaderBounds& bounds);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Continues with `message`: all bytes from the first byte of the request on, including those that
  // were passed before. They may have moved. After kWhole use request() and size(), then call
  // next().
  Progress read(std::string_view message);
  // Returns how many bytes the complete request took.
  std::size_t size() const noexcept;
  // Returns the request. The caller sets its `peer`.
  Request request() const;
  const BadRequest& bad() const noexcept;

  // Returns whether the header of the request is complete.
  bool has_header() const noexcept;
  // Returns whether the client waits for 100 Continue before it sends the body.
  bool expects_continue() const noexcept;

  // Prepares for the next request.
  void next();

 private:
  struct Parts;
  class Parser;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server::http
