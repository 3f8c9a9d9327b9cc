#include "base/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/civil_time.h"
#include "base/quoted.h"

namespace sluice::base {
namespace {

// The code point of a UTF-8 character.
char32_t code_of(std::string_view character) noexcept {
  char32_t code = static_cast<unsigned char>(character[0]);
  if (character.size() > 1) code &= 0x7Fu >> character.size();
  for (const char c : character.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  }
  return code;
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

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : as_utf8(text)) {
    if (static_cast<unsigned char>(c) < 0x20) {
      append_hex(out += "\\u00", c);
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

void append_visible_json(std::string& to, std::string_view text) {
  while (!text.empty()) {
    const auto* const plain = std::find_if_not(text.begin(), text.end(), [](char c) {
      return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
    });
    const auto size = static_cast<std::size_t>(plain - text.begin());
    to.append(text.substr(0, size));
    text.remove_prefix(size);
    if (text.empty()) return;
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const bool is_hidden = control_length(character) > 0 || character == kByteOrderMark;
    if (length == 0) {
      to += "\uFFFD";
    } else if (is_hidden || text[0] == '"' || text[0] == '\\') {
      append_escaped(to, code_of(character));
    } else {
      to.append(character);
    }
    text.remove_prefix(character.size());
  }
}

JsonWriter& JsonWriter::put(std::string_view written) {
  if (comma_) text_ += ',';
  comma_ = true;
  text_ += written;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  put({&bracket, 1});
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  put(json_string(name)).text_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::visible_value(std::string_view text) {
  put("\"");
  append_visible_json(text_, text);
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number,
                                 std::chars_format::general, 9);
  return put({digits.data(), end.ptr});
}

JsonWriter& JsonWriter::value(Instant instant) { return put("\"" + to_rfc3339(instant, 6) + "\""); }

std::string indented(std::string_view json) {
  std::string out;
  std::size_t depth = 0;
  bool is_text = false;
  const auto new_line = [&] { out.append("\n").append(2 * depth, ' '); };
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_text) {
      out += c;
      if (c == '\\') out += json[++i];
      is_text = c != '"';
      continue;
    }
    const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    const bool is_empty = opens && (json[i + 1] == '}' || json[i + 1] == ']');
    if (closes) {
      --depth;
      new_line();
    }
    out += c;
    is_text = c == '"';
    if (is_empty) {
      out += json[++i];
    } else if (opens) {
      ++depth;
      new_line();
    } else if (c == ',') {
      new_line();
    } else if (c == ':') {
      out += ' ';
    }
  }
  return out + '\n';
}

}  // namespace sluice::base
