#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/text/text_buffer.h"
#include "sluice/clock.h"

namespace sluice::server {

// Writes JSON, member after member, with the commas where they belong. Text that is not UTF-8 has
// U+FFFD in the place of each byte that is at fault.
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
  // RFC 3339, in UTC: "2024-02-29T12:00:00.000001Z".
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
  bool comma_ = false;  // what comes next has one before it
};

// The text, with U+FFFD in the place of each byte that is not UTF-8.
std::string as_utf8(std::string_view text);

}  // namespace sluice::server
