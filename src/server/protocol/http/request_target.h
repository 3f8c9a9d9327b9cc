#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/quoted.h"
#include "server/protocol/http/fields.h"

namespace sluice::server {

// Returns the text with each %XX decoded.
inline std::string decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) out += base::take_decoded(text);
  return out;
}

// The parts of a request target, as they were sent.
struct RequestTarget {
  std::string_view path;   // may be empty: "http://host?a"
  std::string_view query;  // without the '?'
};

// Splits a target of any form: "/a?b", "http://host/a?b", "*". Drops a fragment.
RequestTarget split_target(std::string_view target) noexcept;

// The path that a rule is matched with, which begins with '/':
//
//   1. %XX is decoded, once; a % that is none stays. %2F is a slash from here on, as it is to
//      nginx's locations. Any byte may come out, NUL too.
//   2. Slashes that follow each other become one.
//   3. "." and ".." segments are resolved; ".." stops at the root. A path that ends in either ends
//      in '/'.
//
// A view of `sent`, unless there is something to change: then of `buffer`, which is overwritten.
// Cost: linear.
std::string_view normalized_path(std::string_view sent, std::string& buffer);

// Returns the value of the first parameter of that name. Both are decoded: %XX, and '+' for a
// space. "?name" has an empty value; ';' is an ordinary character. Cost: linear. Uses a buffer if
// there is something to decode.
std::optional<std::string_view> find_query(std::string_view query, std::string_view name,
                                           Buffers& buffers);

}  // namespace sluice::server
