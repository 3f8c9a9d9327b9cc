#include "server/logging/log_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/civil_time.h"
#include "base/json_writer.h"

namespace sluice::server {
namespace {

void append_quoted(std::string& to, std::string_view text) {
  to += '"';
  base::append_visible_json(to, text);
  to += '"';
}

template <class Number>
void append_number(std::string& to, Number number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  to.append(digits.data(), end.ptr);
}

void append_value(std::string& to, bool json, const LogField::Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    const std::size_t start = to.size();
    append_quoted(to, *text);
    // A value is plain if nothing was escaped and a reader can split the line at spaces.
    const auto written = std::string_view(to).substr(start);
    if (!json && written.size() > 2 && written.find_first_of(" =\\") == written.npos) {
      to.pop_back();
      to.erase(start, 1);
    }
  } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
    append_number(to, *number);
  } else if (const auto* real = std::get_if<double>(&value)) {
    std::isfinite(*real) ? append_number(to, *real) : static_cast<void>(to += "null");
  } else {
    to += std::get<bool>(value) ? "true" : "false";
  }
}

std::string_view to_string(LogLevel level) noexcept {
  static constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error",
                                                             "off"};
  return kNames[static_cast<std::size_t>(level)];
}

}  // namespace

std::string log_line(bool json, Instant at, LogLevel level, std::string_view message,
                     std::span<const LogField> fields) {
  std::string line;
  line.reserve(256);
  line += json ? "{\"time\":\"" : "";
  base::append_civil(line, at, 3);
  line += 'Z';
  line.append(json ? "\",\"level\":\"" : " ").append(to_string(level));
  line += json ? "\",\"message\":\"" : " ";
  base::append_visible_json(line, message);
  line += json ? "\"" : "";
  for (const LogField& field : fields) {
    line += json ? ",\"" : " ";
    base::append_visible_json(line, field.name);
    line += json ? "\":" : "=";
    append_value(line, json, field.value);
  }
  line += json ? "}\n" : "\n";
  return line;
}

std::string cut(std::string_view text, std::size_t size) {
  if (text.size() <= size) return std::string(text);
  // Go back to the start of a character: at most three bytes.
  std::size_t end = size;
  while (end > 0 && size - end < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace sluice::server
