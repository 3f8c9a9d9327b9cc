#include "server/api/admin/json_writer.h"

#include <chrono>
#include <cstdio>

#include "base/civil_time.h"
#include "base/utf8.h"
#include "rules/diagnostics.h"
#include "server/logging/log_line.h"

namespace sluice::server {

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
  text_.put_json(base::as_utf8(text));
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
  return value(std::string_view(base::to_rfc3339(instant, 6)));
}

}  // namespace sluice::server
