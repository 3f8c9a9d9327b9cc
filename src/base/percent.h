#pragma once

#include <string_view>

// Text with %XX for single bytes, as in URLs.
namespace sluice::base {

// Returns the value of a hex digit, or a negative number.
constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = c | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Removes the first byte of `rest` and returns it, decoded if it begins a %XX. A % that begins no
// escape is returned as it is. `rest` must not be empty.
constexpr char take_decoded(std::string_view& rest) noexcept {
  const char first = rest.front();
  const int high = first == '%' && rest.size() >= 3 ? hex_digit(rest[1]) : -1;
  const int low = high >= 0 ? hex_digit(rest[2]) : -1;
  rest.remove_prefix(low >= 0 ? 3 : 1);
  return low >= 0 ? static_cast<char>(high * 16 + low) : first;
}

}  // namespace sluice::base
