#include "server/api/envoy/json_syntax.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <set>
#include <vector>

#include "rules/diagnostics.h"

namespace sluice::server {
namespace {

namespace json = boost::json;

// basic_parser prescribes these names. Reading ends if one of the members returns false.
class Handler {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    objects_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, json::error_code&) {
    objects_.pop_back();
    return true;
  }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view text, std::size_t, json::error_code&) {
    name_.append(text.data(), text.size());
    return true;
  }
  bool on_key(json::string_view text, std::size_t, json::error_code& error) {
    name_.append(text.data(), text.size());
    std::string one = name_;
    std::erase(one, '_');
    std::transform(one.begin(), one.end(), one.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (!objects_.back().insert(std::move(one)).second) {
      twice = name_;
      error = json::error::extra_data;  // ends the reading; never reported
      return false;
    }
    name_.clear();
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code&) { return true; }
  bool on_double(double, json::string_view, json::error_code&) { return true; }
  bool on_bool(bool, json::error_code&) { return true; }
  bool on_null(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

  std::string twice;  // the name of a repeated member

 private:
  std::vector<std::set<std::string>> objects_;  // the names in the open objects
  std::string name_;
};

}  // namespace

std::string find_json_mistake(std::string_view text) {
  json::basic_parser<Handler> parser{json::parse_options{}};
  json::error_code error;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!parser.handler().twice.empty()) {
    return "the member " + rules::in_quotes(parser.handler().twice) + " is repeated";
  }
  if (!error && read < text.size()) error = json::error::extra_data;
  return error ? "it is not valid JSON in UTF-8 (" + error.message() + ")" : std::string();
}

}  // namespace sluice::server
