#include "replay/json_line.h"

#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::replay {
namespace {

using JsonError = boost::json::error_code;
using JsonText = boost::json::string_view;

// Passes the values of a JSON text to a record, under the paths of their names. Boost.JSON calls
// it.
class JsonHandler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  explicit JsonHandler(const FieldMap& map) : record_(map) {}

  void begin(std::string_view line, LogLine& out, LogExtras& extras) {
    line_ = line;
    extras_ = &extras;
    record_.begin(out, extras);
    path_.clear();
    levels_.clear();
    parts_.clear();
  }
  LineFault finish() { return record_.finish(true); }

  bool on_document_begin(JsonError&) { return true; }
  bool on_document_end(JsonError&) { return true; }
  bool on_object_begin(JsonError&) { return open(); }
  bool on_object_end(std::size_t, JsonError&) { return close(); }
  bool on_array_begin(JsonError&) { return open(); }
  bool on_array_end(std::size_t, JsonError&) { return close(); }
  bool on_key_part(JsonText part, std::size_t, JsonError&) { return append(part); }
  bool on_key(JsonText last, std::size_t, JsonError&) {
    append(last);
    path_.resize(levels_.back());
    if (!path_.empty()) path_ += '.';
    path_ += parts_;
    parts_.clear();
    return true;
  }
  bool on_string_part(JsonText part, std::size_t, JsonError&) { return append(part); }
  bool on_string(JsonText last, std::size_t, JsonError&) { return text(last); }
  bool on_number_part(JsonText part, JsonError&) { return append(part); }
  bool on_int64(std::int64_t, JsonText last, JsonError&) { return text(last); }
  bool on_uint64(std::uint64_t, JsonText last, JsonError&) { return text(last); }
  bool on_double(double, JsonText last, JsonError&) { return text(last); }
  bool on_bool(bool value, JsonError&) {
    record_.add(path_, value ? "true" : "false");
    return true;
  }
  bool on_null(JsonError&) { return true; }
  bool on_comment_part(JsonText, JsonError&) { return true; }
  bool on_comment(JsonText, JsonError&) { return true; }

 private:
  bool open() {
    levels_.push_back(path_.size());
    return true;
  }
  bool close() {
    path_.resize(levels_.back());
    levels_.pop_back();
    return true;
  }
  bool append(JsonText part) {
    parts_.append(part.data(), part.size());
    return true;
  }
  // Adds a value whose last part this is. Text of the line is borrowed, other text copied.
  bool text(JsonText last) {
    std::string_view value(last.data(), last.size());
    if (!parts_.empty()) {
      append(last);
      value = extras_->copy(parts_);
      parts_.clear();
    } else if (last.data() < line_.data() || last.data() > line_.data() + line_.size()) {
      value = extras_->copy(value);
    }
    record_.add(path_, value);
    return true;
  }

  LogRecord record_;
  LogExtras* extras_ = nullptr;
  std::string_view line_;
  std::string path_;                 // of the value
  std::vector<std::size_t> levels_;  // the sizes of the paths of the open objects and arrays
  std::string parts_;                // of a key or a value that the parser passes in parts
};

constexpr boost::json::parse_options parse_options() {
  boost::json::parse_options options;
  options.allow_invalid_utf8 = true;  // servers log the bytes of clients
  return options;
}

}  // namespace

class JsonLineReader::Parser {
 public:
  explicit Parser(const FieldMap& map) : parser_(parse_options(), map) {}

  LineFault read(std::string_view line, LogLine& out, LogExtras& extras) {
    parser_.reset();
    parser_.handler().begin(line, out, extras);
    JsonError error;
    const std::size_t read = parser_.write_some(false, line.data(), line.size(), error);
    if (error || read != line.size()) return LineFault::kMalformedJson;
    return parser_.handler().finish();
  }

 private:
  boost::json::basic_parser<JsonHandler> parser_;
};

JsonLineReader::JsonLineReader(const FieldMap& map) : parser_(std::make_unique<Parser>(map)) {}
JsonLineReader::~JsonLineReader() = default;

LineFault JsonLineReader::read(std::string_view line, LogLine& out, LogExtras& extras) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  if (end == line.npos) return LineFault::kEmpty;
  line = line.substr(0, end + 1);
  if (line.find_first_not_of(" \t") != line.find('{')) return LineFault::kMalformedJson;
  return parser_->read(line, out, extras);
}

}  // namespace sluice::replay
