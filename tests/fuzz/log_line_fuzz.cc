// Access log lines of arbitrary bytes: the parser does not read outside the line, and the fields it
// finds are parts of the line.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_attributes.h"
#include "replay/log_line.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void require_part(std::string_view field, std::string_view line) {
  if (field.data() == nullptr || field == "/") return;  // "/" may replace a missing path
  require(field.data() >= line.data() && field.data() + field.size() <= line.data() + line.size());
}

void look_at_all(const sluice::replay::LogLine& parsed) {
  sluice::replay::LogAttributes attributes;
  attributes.show(parsed);
  for (const char* name : {"ip", "method", "path", "status", "header.user-agent", "header.referer",
                           "query.a", "query.", "other"}) {
    static_cast<void>(attributes.find(name));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::replay::LogTimeReader times;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::size_t begin = 0;
  while (begin <= input.size()) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    const std::vector<char> exact(input.begin() + begin, input.begin() + end);  // finds over-reads
    const std::string_view line(exact.data(), exact.size());
    sluice::replay::LogLine parsed;
    if (read_access_line(line, times, parsed) == sluice::replay::LineFault::kNone) {
      require(parsed.at >= sluice::kFirstInstant && parsed.at <= sluice::kLastInstant);
      for (const std::string_view field : {parsed.client, parsed.method, parsed.path, parsed.query,
                                           parsed.status, parsed.referer, parsed.user_agent}) {
        require_part(field, line);
      }
      look_at_all(parsed);
    }
    begin = end + 1;
  }
  return 0;
}
