// Requests of arbitrary bytes to the RESP front end: the result is the same however they are split
// and stays within bounds, and every reply is whole.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/resp/request_reader.h"

namespace {

using sluice::server::resp::RequestReader;
using Progress = RequestReader::Progress;

constexpr std::size_t kMostBytes = 1 << 16;
constexpr std::size_t kMostArguments = 100;

void require(bool holds) {
  if (!holds) std::abort();
}

// Returns the words of the ready request, each after its size.
std::string describe(const RequestReader& reader, std::string_view input) {
  std::vector<std::string_view> words;
  reader.arguments(input, words);
  require(words.size() <= kMostArguments);
  std::string out;
  for (const std::string_view word : words) {
    out.append(std::to_string(word.size())).append(":").append(word);
  }
  return out;
}

// Returns each request, and finally the reason for the end unless more bytes are needed.
std::vector<std::string> read(std::string_view bytes, std::size_t piece, bool authenticated) {
  RequestReader reader(kMostBytes, kMostArguments);
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (std::size_t end = 0; end < bytes.size();) {
    end = std::min(bytes.size(), end + piece);
    while (begin < end) {
      // A copy, so that a read past its end is found.
      const std::string input(bytes.substr(begin, end - begin));
      const Progress progress = reader.read(input, authenticated);
      if (progress == Progress::kMore) break;
      if (progress == Progress::kBad) {
        require(reader.why().starts_with("Protocol error: "));
        out.push_back(reader.why());
        return out;
      }
      require(reader.size() > 0 && reader.size() <= input.size());
      out.push_back(describe(reader, input));
      begin += reader.size();
      reader.next();
    }
    require(end - begin <= kMostBytes + RequestReader::kMostLine + 2);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 16;
  const bool authenticated = data[0] < 128;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read(bytes, std::max<std::size_t>(1, bytes.size()), authenticated);
  require(whole == read(bytes, piece, authenticated));
  return 0;
}
