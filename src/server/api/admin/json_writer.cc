#include "server/api/admin/json_writer.h"

#include <chrono>
#include <cstdio>

#include "rules/diagnostics.h"
#include "server/logging/log_line.h"

namespace sluice::server {

std::string as_utf8(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t wrong = rules::find_invalid_utf8(text);
    out.append(text.substr(0, wrong));
    if (wrong == text.npos) return out;
    out.append("\xEF\xBF\xBD");
    text.remove_prefix(wrong + 1);
  }
}

void JsonWriter::begin_value() {
  if (comma_) text_.put(',');
  comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  begin_value();
  text_.put(bracket);
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_.put(bracket);
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  begin_value();
  text_.put_json(name);
  text_.put(':');
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  begin_value();
  text_.put_json(as_utf8(text));
  return *this;
}

JsonWriter& JsonWriter::visible_value(std::string_view text) {
  begin_value();
  text_.put_text(quoted_line(text));
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t number) {
  begin_value();
  text_.put_number(number);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  begin_value();
  text_.put_text(flag ? "true" : "false");
  return *this;
}

JsonWriter& JsonWriter::value(Instant instant) {
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(instant - day);
  char text[64];
  const int size = std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
      static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
  return value(std::string_view(text, static_cast<std::size_t>(size)));
}

}  // namespace sluice::server
