// HTTP/1.1 requests: any input means the same however it is split.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/protocol/http/connection.h"

namespace {

using sluice::server::Bounds;
using sluice::server::http::Request;
using sluice::server::http::RequestReader;
using Progress = RequestReader::Progress;

constexpr Bounds kBounds{.header_bytes = 512, .body_bytes = 256};

void check(bool holds) {
  if (!holds) std::abort();
}

std::string shown(const Request& request) {
  std::string out;
  const auto add = [&](std::string_view text) { out.append(text).push_back('\n'); };
  add(request.method);
  add(request.target);
  add(std::to_string(request.version) + (request.keep_alive ? "k" : ""));
  for (const auto& field : request.fields) {
    add(field.name);
    add(field.value);
  }
  add(request.body);
  return out;
}

// Reads all requests of the bytes. They arrive `step` at a time, each time at another address.
std::string read_all(std::string_view bytes, std::size_t step) {
  std::string out;
  RequestReader reader(kBounds);
  std::size_t begin = 0;
  std::size_t end = 0;
  while (end < bytes.size()) {
    end = std::min(bytes.size(), end + step);
    while (begin < end) {
      const std::string message(bytes.substr(begin, end - begin));
      const Progress progress = reader.read(message);
      if (progress == Progress::kMore) break;
      if (progress == Progress::kBad) {
        check(reader.bad().status >= 400 && !reader.bad().detail.empty());
        return out + "bad";
      }
      const Request request = reader.request();
      check(!request.method.empty() && !request.target.empty());
      check(request.body.size() <= kBounds.body_bytes);
      check(reader.size() > 0 && reader.size() <= message.size());
      out += shown(request);
      begin += reader.size();
      reader.next();
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t step = std::size_t{data[0]} + 1;
  const std::string whole = read_all(bytes, bytes.size() + 1);
  const std::string parts = read_all(bytes, step);
  // The requests before a refused one are equal. If the bytes arrive at once, the reader may notice
  // a bound, and refuse, earlier.
  const std::size_t common = std::min(whole.size(), parts.size());
  if (!whole.ends_with("bad") && !parts.ends_with("bad")) {
    check(whole == parts);
  } else {
    const std::size_t same = common >= 3 ? common - 3 : common;
    check(whole.substr(0, same) == parts.substr(0, same));
  }
  return 0;
}
