#pragma once

#include <optional>
#include <string>
#include <string_view>

// The target of an HTTP request, and the parts of it that rules read.
namespace sluice::base {

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

// Returns the value of the first parameter whose decoded name this is, as it was sent. "?name" has
// an empty value; ';' is an ordinary character. Cost: linear.
std::optional<std::string_view> find_query(std::string_view query, std::string_view name) noexcept;
// Decodes such a value: %XX, and '+' for a space. Overwrites the buffer and returns a view of it.
std::string_view decode_query(std::string_view encoded, std::string& buffer);

}  // namespace sluice::base
