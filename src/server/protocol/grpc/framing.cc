#include "server/protocol/grpc/framing.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "base/quoted.h"

namespace sluice::server::grpc {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr std::size_t kStep = std::size_t{16} << 10;

Code inflate_all(z_stream& stream, std::size_t most, std::string& out) {
  for (;;) {
    const std::size_t before = out.size();
    const std::size_t room =
        std::min(kStep, most - before + 1);  // one byte more shows that the output is too large
    out.resize(before + room);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    out.resize(before + room - stream.avail_out);
    if (out.size() > most) {
      out.clear();
      return Code::kResourceExhausted;
    }
    if (result == Z_STREAM_END) return stream.avail_in == 0 ? Code::kOk : Code::kInternal;
    if (result != Z_OK || (stream.avail_in == 0 && stream.avail_out > 0)) return Code::kInternal;
  }
}

}  // namespace

Code gunzip(std::string_view bytes, std::size_t most, std::string& out) {
  out.clear();
  z_stream stream{};
  if (::inflateInit2(&stream, kGzipOnly) != Z_OK) return Code::kInternal;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  const Code result = inflate_all(stream, most, out);
  ::inflateEnd(&stream);
  return result;
}

std::pair<std::uint8_t, std::uint32_t> read_prefix(std::string_view bytes) noexcept {
  std::uint32_t size = 0;
  for (std::size_t i = 1; i < kPrefixBytes; ++i) {
    size = size << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  return {static_cast<std::uint8_t>(bytes[0]), size};
}

void append_message(std::string& out, std::string_view message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  const char prefix[kPrefixBytes] = {0, static_cast<char>(size >> 24),
                                     static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                                     static_cast<char>(size)};
  out.append(prefix, kPrefixBytes).append(message);
}

int FrameScanner::take(std::string_view bytes, net::SteadyTime now) noexcept {
  constexpr std::uint8_t kSizeBytes = 3;
  constexpr std::uint8_t kTypeAt = 3;
  constexpr std::uint8_t kFlagsAt = 4;
  constexpr std::uint8_t kHeadBytes = 9;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); };
  const auto wide = [&](std::size_t at) { return std::uint32_t{byte(at)}; };
  int heads = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto skipped = std::min<std::size_t>(skip_, bytes.size() - at);
    skip_ -= static_cast<std::uint32_t>(skipped);
    at += skipped;
    if (at == bytes.size()) break;
    // The time of a header starts with its first frame.
    if (have_ == 0 && !header_open_) since_ = now;
    if (have_ == 0 && bytes.size() - at >= kHeadBytes) {  // the usual case
      const std::uint32_t size = wide(at) << 16 | wide(at + 1) << 8 | wide(at + 2);
      end_head(size, byte(at + kTypeAt), byte(at + kFlagsAt));
      at += kHeadBytes;
      ++heads;
      continue;
    }
    for (; have_ < kHeadBytes && at < bytes.size(); ++have_, ++at) {
      if (have_ < kSizeBytes) size_ = size_ << 8 | wide(at);
      if (have_ == kTypeAt) type_ = byte(at);
      if (have_ == kFlagsAt) flags_ = byte(at);
    }
    if (have_ < kHeadBytes) break;
    have_ = 0;
    end_head(std::exchange(size_, 0), type_, flags_);
    ++heads;
  }
  return heads;
}

void FrameScanner::end_head(std::uint32_t size, std::uint8_t type, std::uint8_t flags) noexcept {
  constexpr std::uint8_t kHeaders = 1;
  constexpr std::uint8_t kContinuation = 9;
  constexpr std::uint8_t kEndHeaders = 4;
  skip_ = size;
  type_ = type;
  if (type == kHeaders || type == kContinuation) header_open_ = (flags & kEndHeaders) == 0;
}

bool FrameScanner::is_in_data() const noexcept {
  constexpr std::uint8_t kData = 0;
  return !header_open_ && have_ == 0 && skip_ > 0 && type_ == kData;
}

void append_percent_encoded(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
      out.push_back(c);
    } else {
      base::append_hex(out += '%', c);
    }
  }
}

std::optional<std::chrono::nanoseconds> parse_timeout(std::string_view text) noexcept {
  constexpr std::size_t kMostDigits = 8;
  constexpr std::int64_t kMostHours = 2'000'000;  // as many hours as fit into 64-bit nanoseconds
  if (text.size() < 2 || text.size() > kMostDigits + 1) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  switch (text.back()) {
    case 'H': return std::chrono::hours(std::min(value, kMostHours));
    case 'M': return std::chrono::minutes(value);
    case 'S': return std::chrono::seconds(value);
    case 'm': return std::chrono::milliseconds(value);
    case 'u': return std::chrono::microseconds(value);
    case 'n': return std::chrono::nanoseconds(value);
    default: return std::nullopt;
  }
}

bool is_grpc(std::string_view content_type) noexcept {
  constexpr std::string_view kGrpc = "application/grpc";
  constexpr std::string_view kProto = "+proto";
  if (!content_type.starts_with(kGrpc)) return false;
  content_type.remove_prefix(kGrpc.size());
  if (content_type.starts_with(kProto)) content_type.remove_prefix(kProto.size());
  return content_type.empty() || content_type.front() == ';';
}

}  // namespace sluice::server::grpc
