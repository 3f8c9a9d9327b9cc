#include "replay/envoy_line.h"

#include <array>

#include "replay/line_cursor.h"

namespace sluice::replay {
namespace {

enum QuotedField : std::size_t { kForwarded, kAgent, kRequestId, kAuthority, kQuotedFields };
using QuotedRun = std::array<std::string_view, kQuotedFields>;

// Finds the first four quoted fields that follow each other.
LineFault read_quoted_run(LineCursor& cursor, QuotedRun& out) noexcept {
  std::size_t found = 0;
  while (found < kQuotedFields) {
    if (cursor.left() == 0) return LineFault::kNoEnvoyNumbers;
    if (!cursor.eat("\"")) {
      cursor.word();
      found = 0;
      continue;
    }
    out[found] = cursor.quoted();
    if (out[found].data() == nullptr) return LineFault::kOpenField;
    ++found;
    cursor.eat(" ");
  }
  return LineFault::kNone;
}

// The last address of the header, without its port.
std::string_view last_address(std::string_view forwarded) noexcept {
  const std::string_view last = forwarded.substr(forwarded.rfind(',') + 1);
  return unless_dash(last.starts_with(' ') ? last.substr(1) : last);
}

}  // namespace

LineFault EnvoyLineReader::read(std::string_view line, LogLine& out, LogExtras& extras) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return LineFault::kEmpty;
  out = LogLine{};
  out.escaped = false;
  const std::size_t closing = line.find(']');
  if (!line.starts_with('[') || closing == line.npos) return LineFault::kNoEnvoyTime;
  const auto fault = times_.read(line.substr(1, closing - 1), out.at);
  if (fault == TimestampFault::kOutOfRange) return LineFault::kOutOfRange;
  if (fault != TimestampFault::kNone) return LineFault::kMalformedTime;
  LineCursor cursor(line.substr(closing + 1));
  if (!cursor.eat(" \"")) return LineFault::kNoRequest;
  const std::string_view request = cursor.quoted();
  if (request.data() == nullptr) return LineFault::kOpenRequest;
  cursor.eat(" ");
  const std::string_view status = cursor.word();
  QuotedRun fields;
  if (const LineFault quoted = read_quoted_run(cursor, fields); quoted != LineFault::kNone) {
    return quoted;
  }
  read_request(request, out);
  out.status = unless_dash(status);
  out.client = last_address(fields[kForwarded]);
  out.user_agent = unless_dash(fields[kAgent]);
  out.fields_at = static_cast<std::uint32_t>(extras.fields.size());
  const auto add = [&](std::string_view name, std::string_view value) {
    if (unless_dash(value).data() != nullptr) extras.fields.push_back({name, value});
  };
  add("header.x-forwarded-for", fields[kForwarded]);
  add("header.x-request-id", fields[kRequestId]);
  add("host", fields[kAuthority]);
  out.fields_size = static_cast<std::uint32_t>(extras.fields.size()) - out.fields_at;
  return LineFault::kNone;
}

}  // namespace sluice::replay
