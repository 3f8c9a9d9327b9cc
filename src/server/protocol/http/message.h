#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/config/role.h"
#include "sluice/http_fields.h"

namespace sluice::server::http {

// The name is as it was sent: see has_name().
using Field = HttpField;

// One complete request. All views are of the connection's buffers and are valid until the handler
// returns.
struct Request {
  std::string_view method;
  std::string_view target;  // as it was sent: "/a?b=c", "http://host/a", "*"
  int version = 11;         // 10 or 11
  bool keep_alive = true;
  std::span<const Field> fields;          // in the order of the request
  std::string_view body;                  // chunks are joined
  std::string_view peer;                  // the peer's address as text; empty on a Unix socket
  Role certificate_role = Role::kNobody;  // of the client with this certificate, if one is known
  int descriptor = -1;                    // of its socket; below 0: not known
};

class Broadcast;

// The response to a request. The handler fills in an empty one. The connection adds Date,
// Content-Length and Connection, and reuses the buffers.
struct Response {
  int status = 200;
  std::string fields;  // complete lines: "Name: value\r\n"
  std::string_view content_type;
  std::string_view body;  // must outlive the handler: a literal, or a view of `text`
  std::string text;       // storage for a body that is made for this response
  // The storage of `body` instead of `text`, if several responses have the same.
  std::shared_ptr<const std::string> shared_text;
  // If set, the body goes on after `body` until the broadcast or the connection ends. It has no
  // Content-Length, and its connection serves no other request.
  Broadcast* broadcast = nullptr;
  bool closes = false;  // the connection serves no other request
  std::string refusal;  // why the request was not accepted; empty: it was

  void add(std::string_view name, std::string_view value) {
    fields.append(name).append(": ").append(value).append("\r\n");
  }
  // Sends `text` as the body.
  void answer_text(int code, std::string_view type) {
    status = code;
    content_type = type;
    body = text;
  }
  void clear() {
    status = 200;
    fields.clear();
    content_type = {};
    body = {};
    text.clear();
    shared_text.reset();
    broadcast = nullptr;
    closes = false;
    refusal.clear();
  }
};

// Answers the requests of a listener. There is one handler for each event loop, called by that
// loop's thread only, or one for each request in progress if it may wait.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(const Request& request, Response& response) = 0;
  // The response was written, `took` after the request was read.
  virtual void finished(const Request& request, const Response& response,
                        std::chrono::nanoseconds took) = 0;
  // The client has gone while handle() waits: its request need not be answered.
  virtual void stop_waiting() {}
  // Releases rules that are no longer active. Called while there are no requests.
  virtual void follow_rules() {}

  // Clears the response after a request, and releases larger buffers.
  void recycle() {
    constexpr std::size_t kMostKept = std::size_t{64} << 10;
    response.clear();
    if (response.text.capacity() > kMostKept) response.text = std::string();
  }

  Response response;  // to the request that is being answered
};

}  // namespace sluice::server::http
