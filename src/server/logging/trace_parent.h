#pragma once

#include <optional>
#include <string_view>

namespace sluice::server {

// The trace of a request (W3C Trace Context). A plain value that borrows the text.
struct TraceParent {
  std::string_view trace_id;  // 32 hexadecimal digits
  std::string_view span_id;   // 16 hexadecimal digits, of the caller

  // Reads "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", or a later version. Returns
  // nothing if the text is not valid.
  static std::optional<TraceParent> parse(std::string_view text) noexcept;
};

// Finds the trace of a request when a line about it is written. Thread-safety: one thread.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  // Returns the text of `traceparent`, which may be wrong, or nothing. It is valid until the next
  // call.
  virtual std::optional<std::string_view> traceparent() const = 0;
};

}  // namespace sluice::server
