#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Returns the host name of "Example.com.:8080" as rules compare it, "example.com": in lower case,
// without the port and without a trailing dot. For "[::1]:80" returns the address. Returns a view
// of `authority`, or, if that has upper case, of `buffer`, which is overwritten.
std::string_view host_name(std::string_view authority, std::string& buffer);

// Strings that are reused from request to request. A string keeps its value until clear().
// Allocates nothing before the first next().
class Buffers {
 public:
  // Returns an empty string.
  std::string& next() {
    if (used_ == strings_.size()) strings_.push_back(std::make_unique<std::string>());
    std::string& string = *strings_[used_++];
    string.clear();
    return string;
  }
  void clear() noexcept { used_ = 0; }

 private:
  std::vector<std::unique_ptr<std::string>> strings_;  // a std::deque allocates while it is empty
  std::size_t used_ = 0;
};

// Returns the value of the first parameter whose decoded name this is, decoded: %XX, and '+' for a
// space. "?name" has an empty value; ';' is an ordinary character. Uses a buffer if there is
// something to decode. Cost: linear.
std::optional<std::string_view> find_query(std::string_view query, std::string_view name,
                                           Buffers& buffers);

}  // namespace sluice::base
