#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/clock.h"

namespace sluice::base {

// Returns a JSON string in its quotes. U+FFFD replaces each byte that is not UTF-8.
std::string json_string(std::string_view text);

// Appends text as inside the quotes of a JSON string, for people: control characters, and
// characters that change the direction of text, are escaped. U+FFFD replaces each byte that is not
// UTF-8.
void append_visible_json(std::string& to, std::string_view text);

// Writes JSON, member after member, with commas between them. In text that is not UTF-8, U+FFFD
// replaces each invalid byte.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text) { return put(json_string(text)); }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::int64_t number) { return put(std::to_string(number)); }
  JsonWriter& value(std::uint64_t number) { return put(std::to_string(number)); }
  // With nine digits, and "." in any locale.
  JsonWriter& value(double number);
  JsonWriter& value(bool flag) { return put(flag ? "true" : "false"); }
  JsonWriter& null() { return put("null"); }
  // Text from clients, for people. A reader gets the same text as from value().
  JsonWriter& visible_value(std::string_view text);
  // RFC 3339 in UTC: "2024-02-29T12:00:00.000001Z".
  JsonWriter& value(Instant instant);
  template <typename T>
  JsonWriter& member(std::string_view name, const T& of) {
    return key(name).value(of);
  }
  // The member is an array of these values.
  template <typename Values>
  JsonWriter& array(std::string_view name, const Values& values) {
    key(name).begin_array();
    for (const auto& each : values) value(each);
    return end_array();
  }

  std::string_view view() const noexcept { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& put(std::string_view written);

  std::string text_;
  bool comma_ = false;  // a comma precedes the next value
};

// Returns compact JSON with two spaces for each level, and a line feed at its end.
std::string indented(std::string_view json);

}  // namespace sluice::base
