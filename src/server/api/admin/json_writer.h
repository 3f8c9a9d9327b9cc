#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "limiter/text_buffer.h"
#include "sluice/clock.h"

namespace sluice::server {

// Writes JSON, member after member, with commas between them. In text that is not UTF-8, U+FFFD
// replaces each invalid byte.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(bool flag);
  // Text from clients, for people: control characters, and characters that change the direction of
  // text, are escaped. A reader gets the same text as from value().
  JsonWriter& visible_value(std::string_view text);
  // RFC 3339 in UTC: "2024-02-29T12:00:00.000001Z".
  JsonWriter& value(Instant instant);
  template <typename T>
  JsonWriter& member(std::string_view name, const T& of) {
    return key(name).value(of);
  }

  std::string_view view() const noexcept { return text_.view(); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void begin_value();

  TextBuffer text_;
  bool comma_ = false;  // a comma precedes the next value
};

}  // namespace sluice::server
