#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// What gRPC puts on top of HTTP/2: how messages, texts and times are written.
namespace sluice::server::grpc {

// Before each message: whether it is compressed, and how long it is.
struct Prefix {
  std::uint8_t compressed = 0;  // 0 or 1; others are no prefix of ours
  std::uint32_t size = 0;
};
inline constexpr std::size_t kPrefixBytes = 5;

// `bytes` has kPrefixBytes at least.
Prefix read_prefix(std::string_view bytes) noexcept;
// Appends a message that is not compressed. It is shorter than 4 GiB.
void append_message(std::string& out, std::string_view message);

// Counts frames of HTTP/2, whatever they are, in what a client sends.
class FrameCount {
 public:
  // How many heads of frames end in these bytes, which follow those of the last call.
  int take(std::string_view bytes) noexcept;

 private:
  std::uint32_t skip_ = 24;  // the client's greeting, or what remains of a frame
  std::uint32_t size_ = 0;   // as far as it is known
  std::uint8_t have_ = 0;    // bytes of a head
};

// Appends a text as the field grpc-message has it: printable ASCII but for '%', the other bytes as
// %XX.
void append_percent_encoded(std::string& out, std::string_view text);

// Reads the field grpc-timeout: one to eight digits and one of H M S m u n. Nothing where it is
// malformed.
std::optional<std::chrono::nanoseconds> parse_timeout(std::string_view text) noexcept;

// What a field content-type says of a request.
enum class ContentType : std::uint8_t {
  kProto,  // application/grpc, application/grpc+proto; with parameters or without
  kOther,
};
ContentType parse_content_type(std::string_view text) noexcept;

}  // namespace sluice::server::grpc
