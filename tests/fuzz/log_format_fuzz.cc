// Logs of arbitrary bytes in every format: the readers do not read outside a line, and what they
// find is text of the line or of the extras.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "replay/log_attributes.h"
#include "replay/log_reader.h"

namespace {

using namespace sluice::replay;

void check(const LogLine& line, const LogExtras& extras) {
  if (line.at < sluice::kFirstInstant || line.at > sluice::kLastInstant) std::abort();
  const auto fields = std::span(extras.fields).subspan(line.fields_at, line.fields_size);
  const auto costs = std::span(extras.costs).subspan(line.costs_at, line.costs_size);
  LogAttributes attributes;
  attributes.show(line, fields);
  std::size_t bytes = 0;  // reads every byte
  const auto read = [&bytes](std::string_view text) {
    for (const char c : text) bytes += static_cast<unsigned char>(c);
  };
  for (const char* name : {"ip", "method", "path", "status", "header.user-agent", "query.a"}) {
    if (const auto found = attributes.find(name)) read(*found);
  }
  for (const LogField& field : fields) {
    if (!attributes.find(field.name)) std::abort();
    read(field.value);
  }
  for (const auto& cost : costs) read(cost.limit);
  // Every byte was read; the compiler must not leave that out.
  if (bytes == SIZE_MAX) std::abort();
}

void read_log(std::string_view text, LogFormat format, FieldMap& map) {
  LogParser parser(map);
  parser.begin(format);
  LogExtras extras;
  std::vector<std::vector<char>> lines;  // exact copies, to find reads outside them
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.begin() + begin, text.begin() + end);
    LogLine line;
    const LineFault fault = parser.read({lines.back().data(), lines.back().size()}, line, extras);
    if (explain(fault) == "unknown") std::abort();
    if (fault == LineFault::kNone) check(line, extras);
    begin = end + 1;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static FieldMap map(std::vector<FieldMapping>{
      {"user", "u"}, {"time", "t"}, {"costs.a", "c"}, {"body.c", "c"}, {"cost", "n"}});
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(detect_format(text, map));
  for (const LogFormat format :
       {LogFormat::kCommon, LogFormat::kEnvoy, LogFormat::kJson, LogFormat::kCsv}) {
    read_log(text, format, map);
  }
  return 0;
}
