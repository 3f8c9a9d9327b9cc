// Replies of arbitrary bytes: the result is the same however they are split, and stays within
// bounds.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/pipeline.h"

namespace {

using sluice::redis::Reply;
using sluice::redis::ReplyReader;

constexpr ReplyReader::Bounds kBounds = {
    .reply_bytes = 1 << 16, .line_bytes = 256, .elements = 1000, .depth = 6};

void require(bool holds) {
  if (!holds) std::abort();
}

// Describes everything that a reply holds, and counts its elements.
std::size_t describe(const Reply& reply, std::string& out) {
  out += static_cast<char>('a' + static_cast<int>(reply.type));
  switch (reply.type) {
    case Reply::kInteger: out += std::to_string(reply.integer); return 1;
    case Reply::kNil: return 1;
    case Reply::kArray: break;
    default: out.append(std::to_string(reply.text.size())).append(reply.text); return 1;
  }
  std::size_t elements = 1;
  out += std::to_string(reply.count) + "[";
  for (const Reply& one : reply) elements += describe(one, out);
  return elements;
}

// Returns each reply, and finally the reason for the end unless more bytes are needed.
std::vector<std::string> read(std::string_view bytes, std::size_t piece) {
  ReplyReader reader(kBounds);
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.substr(at, piece));
    while (true) {
      const ReplyReader::Progress progress = reader.next();
      if (progress == ReplyReader::Progress::kMore) break;
      if (progress == ReplyReader::Progress::kBad) {
        require(!reader.why().empty());
        out.emplace_back("bad");
        return out;
      }
      require(describe(reader.reply(), out.emplace_back()) <= kBounds.elements);
      require(out.back().size() <= 16 * kBounds.reply_bytes);
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 16;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> whole = read(bytes, std::max<std::size_t>(1, bytes.size()));
  require(whole == read(bytes, piece));
  return 0;
}
