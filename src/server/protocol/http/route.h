#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/quoted.h"

namespace sluice::server::http {

// Returns the words of a list, which spaces separate.
inline std::vector<std::string_view> words_of(std::string_view list) {
  if (list.empty()) return {};
  return base::split(list, ' ');
}
inline bool has_word(std::string_view list, std::string_view word) {
  const auto words = words_of(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A parameter of a request. Its value is a text, one of some words, or a whole number.
struct Parameter {
  std::string_view name;  // "attributes": any other names, which are those of attributes
  std::string_view about;
  bool required = false;
  std::string_view words = {};  // separated by spaces
  std::uint64_t least = 0;
  std::uint64_t most = 0;  // 0: it is no number
  bool is_header = false;
};

// Writes a JSON Schema.
using WriteSchema = void (*)(base::JsonWriter& json);

// What a listener answers: a row of the table by which it finds what answers a request. The same
// rows are the reference of the HTTP API (docs/openapi.json). A plain value that borrows its texts.
struct Route {
  std::string_view method = {};  // "GET" also answers HEAD; empty: any method
  std::string_view path = {};    // may end with parameters: "/v1/rules/{rule}"
  std::string_view about = {};
  std::span<const Parameter> parameters = {};
  std::string_view body_type = {};  // of the request; empty: it has no body
  WriteSchema body = nullptr;       // null: a text
  // The statuses of its own answers, their media types, and the members that an object of JSON has;
  // all separated by spaces.
  std::string_view answers = "200";
  std::string_view answer_types = "application/json";
  std::string_view members = {};
  // The statuses of its own errors (RFC 9457), besides those that every request can have.
  std::string_view problems = {};
  bool decides = false;        // its answers are decisions: JSON with the RateLimit fields
  bool has_limits = false;     // its answers have the RateLimit fields
  bool needs_query = false;    // a POST without one is of another route
  bool takes_token = true;     // of a client
  bool may_be_refused = true;  // 403, by who sent it
  bool is_admin = false;       // of the administration

  // The path before its parameters.
  constexpr std::string_view prefix() const noexcept { return path.substr(0, path.find('{')); }
  constexpr bool names_one() const noexcept { return prefix().size() < path.size(); }
};

}  // namespace sluice::server::http
