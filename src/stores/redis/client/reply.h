#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::redis {

// A reply of a server. Its text and its elements belong to the ReplyReader that has read it.
struct Reply {
  enum class Type : std::uint8_t { kNil, kInteger, kStatus, kString, kError, kArray };
  using enum Type;

  bool is_array_of(std::size_t least) const noexcept { return type == kArray && count >= least; }
  const Reply& operator[](std::size_t i) const noexcept { return first[i]; }  // i < count
  const Reply* begin() const noexcept { return first; }
  const Reply* end() const noexcept { return first + count; }

  // Returns the text of a string or a status, and an empty text for other types.
  std::string_view string() const noexcept {
    return type == kString || type == kStatus ? text : std::string_view();
  }
  // Returns the value of a field in a map, or in an array of names and values. Empty if absent.
  std::string_view field(std::string_view name) const noexcept {
    for (std::size_t i = 0; i + 1 < count; i += 2) {
      if (first[i].string() == name) return first[i + 1].string();
    }
    return {};
  }

  Type type = kNil;
  std::int64_t integer = 0;      // of kInteger
  std::string_view text = {};    // of kStatus, kString and kError
  const Reply* first = nullptr;  // elements of kArray
  std::size_t count = 0;
};

}  // namespace sluice::redis
