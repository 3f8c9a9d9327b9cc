#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice::server::http {

struct Field {
  std::string_view name;  // as it was sent: compare with equal_names()
  std::string_view value;
};

// One request, read whole. All views lie in the connection's buffers, and end with the handler's
// return.
struct Request {
  std::string_view method;
  std::string_view target;  // as it was sent: "/a?b=c", "http://host/a", "*"
  int version = 11;         // 10 or 11
  bool keep_alive = true;
  std::span<const Field> fields;  // in the order of the request
  std::string_view body;          // without its chunks
  std::string_view peer;          // the peer's address as text; empty on a Unix socket

  // The value of the first field of that name (given in lower case); null where there is none.
  const std::string_view* find(std::string_view lower_case_name) const noexcept;
};

// Whether two names of fields are the same: ASCII letters count in either case.
bool equal_names(std::string_view a, std::string_view b) noexcept;

// What is answered. A handler fills in one that is empty; the connection adds Date,
// Content-Length and Connection, and keeps its buffers for the next.
struct Response {
  int status = 200;
  std::string fields;  // whole lines: "Name: value\r\n"
  std::string_view content_type;
  std::string_view body;  // what outlives the handler: a literal, or a view of `text`
  std::string text;       // a place for a body that is made for this answer

  void add(std::string_view name, std::string_view value) {
    fields.append(name).append(": ").append(value).append("\r\n");
  }
  // Answers with the text, which was written to `text`.
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
  }
};

// What stands behind a listener: one for each event loop, called by that loop's thread only.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(const Request& request, Response& response) = 0;
  // The answer has been written, `took` after the request was read.
  virtual void finished(const Request& request, const Response& response,
                        std::chrono::nanoseconds took) = 0;
  // Releases rules that are no longer active, while there are no requests.
  virtual void follow_rules() {}
};

}  // namespace sluice::server::http
