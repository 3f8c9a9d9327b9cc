#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/net/loop_clock.h"
#include "server/protocol/grpc/message.h"

namespace sluice::server::grpc {

// Decompresses `bytes` into `out`, which never holds more than `most` bytes. Returns
// kResourceExhausted for more, and kInternal if the bytes are not exactly one complete gzip member.
Code gunzip(std::string_view bytes, std::size_t most, std::string& out);

// The formats that gRPC adds to HTTP/2: messages, texts and times.

inline constexpr std::size_t kPrefixBytes = 5;

// Reads the prefix of a message: whether it is compressed, 0 or 1 (other values are invalid), and
// its length. `bytes` has at least kPrefixBytes.
std::pair<std::uint8_t, std::uint32_t> read_prefix(std::string_view bytes) noexcept;
// Appends an uncompressed message, which must be shorter than 4 GiB.
void append_message(std::string& out, std::string_view message);

// Follows the HTTP/2 frames of any type that a client sends: counts them, and reports which one is
// incomplete.
class FrameScanner {
 public:
  // Returns how many frame headers end in `bytes`, which arrived at `now` and follow the bytes of
  // the last call.
  int take(std::string_view bytes, net::SteadyTime now) noexcept;
  // Whether a frame has begun to arrive and is not complete, or a header whose CONTINUATION is to
  // follow; and whether that is a DATA frame.
  bool is_partial() const noexcept { return header_open_ || have_ > 0 || skip_ > 0; }
  bool is_in_data() const noexcept;
  // When its first byte arrived. Valid if is_partial().
  net::SteadyTime partial_since() const noexcept { return since_; }

 private:
  void end_head(std::uint32_t size, std::uint8_t type, std::uint8_t flags) noexcept;

  std::uint32_t skip_ = 24;  // of the client's connection preface, or the rest of a frame
  std::uint32_t size_ = 0;   // the frame size, as far as it is known
  std::uint8_t have_ = 0;    // bytes of a frame header
  std::uint8_t type_ = 0;    // of the last frame header
  std::uint8_t flags_ = 0;
  bool header_open_ = false;  // no frame with END_HEADERS has followed HEADERS
  net::SteadyTime since_{};
};

// Appends a text in the encoding of grpc-message: printable ASCII except for '%' stays, other bytes
// become %XX.
void append_percent_encoded(std::string& out, std::string_view text);

// Reads the field grpc-timeout: one to eight digits and one of H M S m u n. Returns nothing if it
// is malformed.
std::optional<std::chrono::nanoseconds> parse_timeout(std::string_view text) noexcept;

// Whether a content-type is application/grpc or application/grpc+proto, with or without parameters.
bool is_grpc(std::string_view content_type) noexcept;

}  // namespace sluice::server::grpc
