#include "cli/json_keys.h"

#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace sluice::cli {
namespace {

namespace json = boost::json;

// A parser handler that stops at the first duplicate key. basic_parser defines the names of its
// members.
class KeyListener {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return open(false); }
  bool on_object_end(std::size_t, json::error_code&) { return close(); }
  bool on_array_begin(json::error_code&) { return open(true); }
  bool on_array_end(std::size_t, json::error_code&) { return close(); }
  bool on_key_part(json::string_view text, std::size_t, json::error_code&) {
    key_.append(text.data(), text.size());
    return true;
  }
  bool on_key(json::string_view text, std::size_t, json::error_code& error) {
    key_.append(text.data(), text.size());
    Container& object = open_.back();
    object.key = std::move(key_);
    key_.clear();
    if (object.keys.insert(object.key).second) return true;
    duplicate = {path(), object.key};
    error = json::error::extra_data;  // stops the parser; never reported
    return false;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code&) { return count(); }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code&) { return count(); }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code&) { return count(); }
  bool on_double(double, json::string_view, json::error_code&) { return count(); }
  bool on_bool(bool, json::error_code&) { return count(); }
  bool on_null(json::error_code&) { return count(); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

  std::optional<DuplicateKey> duplicate;

 private:
  // An object or array that has not ended.
  struct Container {
    bool is_array = false;
    std::size_t index = 0;       // array: the index of the current element
    std::string key;             // object: the key of the current member
    std::set<std::string> keys;  // object: all keys so far
  };

  bool open(bool is_array) {
    open_.push_back({.is_array = is_array, .index = 0, .key = {}, .keys = {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return count();
  }
  bool count() {
    if (!open_.empty()) ++open_.back().index;
    return true;
  }

  // The innermost object.
  std::string path() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i].is_array) {
        path += '[' + std::to_string(open_[i].index) + ']';
      } else {
        if (!path.empty()) path += '.';
        path += open_[i].key;
      }
    }
    return path;
  }

  std::vector<Container> open_;
  std::string key_;
};

}  // namespace

std::optional<DuplicateKey> find_duplicate_key(std::string_view text) {
  json::basic_parser<KeyListener> parser{json::parse_options()};
  json::error_code error;
  parser.write_some(false, text.data(), text.size(), error);
  return parser.handler().duplicate;
}

}  // namespace sluice::cli
