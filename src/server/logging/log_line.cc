#include "server/logging/log_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/civil_time.h"

namespace sluice::server {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t size = 1;
};

// Returns the first character of the text, or nothing if the text is not well-formed UTF-8 there.
std::optional<Character> first_character(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto lead = byte(0);
  if (lead < 0x80) return Character{lead, 1};
  const std::size_t size = lead < 0xC2   ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  if (size == 0 || text.size() < size) return {};
  char32_t code = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[size] || code > 0x10FFFF || surrogate) return {};
  return Character{code, size};
}

// Control characters, line separators, and characters that change the direction of text.
bool is_hidden(char32_t code) noexcept {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C ||
         (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

void append_escaped(std::string& to, char32_t code) {
  constexpr std::string_view kShort = "\"\\\n\r\t";
  constexpr std::string_view kLetters = "\"\\nrt";
  if (const auto at = code < 0x80 ? kShort.find(static_cast<char>(code)) : kShort.npos;
      at != kShort.npos) {
    to += '\\';
    to += kLetters[at];
    return;
  }
  std::array<char, 8> hex{};
  std::snprintf(hex.data(), hex.size(), "\\u%04x", static_cast<unsigned>(code));
  to += hex.data();
}

void append_quoted(std::string& to, std::string_view text) {
  to += '"';
  append_json_text(to, text);
  to += '"';
}

template <class Number>
void append_number(std::string& to, Number number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  to.append(digits.data(), end.ptr);
}

void append_value(std::string& to, LogFormat format, const LogField::Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    const std::size_t start = to.size();
    append_quoted(to, *text);
    // A value is plain if nothing was escaped and a reader can split the line at spaces.
    const auto written = std::string_view(to).substr(start);
    if (format == LogFormat::kText && written.size() > 2 &&
        written.find_first_of(" =\\") == written.npos) {
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

void append_json_text(std::string& to, std::string_view text) {
  while (!text.empty()) {
    const auto* const plain = std::find_if_not(text.begin(), text.end(), [](char c) {
      return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
    });
    const auto size = static_cast<std::size_t>(plain - text.begin());
    to.append(text.substr(0, size));
    text.remove_prefix(size);
    if (text.empty()) return;
    const auto next = first_character(text);
    if (!next) {
      to += "\uFFFD";
    } else if (is_hidden(next->code) || text[0] == '"' || text[0] == '\\') {
      append_escaped(to, next->code);
    } else {
      to.append(text.substr(0, next->size));
    }
    text.remove_prefix(next ? next->size : 1);
  }
}

std::string log_line(LogFormat format, Instant at, LogLevel level, std::string_view message,
                     std::span<const LogField> fields) {
  const bool json = format == LogFormat::kJson;
  std::string line;
  line.reserve(256);
  line += json ? "{\"time\":\"" : "";
  base::append_civil(line, at, 3);
  line += 'Z';
  line.append(json ? "\",\"level\":\"" : " ").append(to_string(level));
  line += json ? "\",\"message\":\"" : " ";
  append_json_text(line, message);
  line += json ? "\"" : "";
  for (const LogField& field : fields) {
    line += json ? ",\"" : " ";
    append_json_text(line, field.name);
    line += json ? "\":" : "=";
    append_value(line, format, field.value);
  }
  line += json ? "}\n" : "\n";
  return line;
}

std::string quoted_line(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

std::string cut(std::string_view text, std::size_t size) {
  if (text.size() <= size) return std::string(text);
  // Go back to the start of a character: at most three bytes.
  std::size_t end = size;
  while (end > 0 && size - end < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace sluice::server
