#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

// Reads a whole number of a few digits without a sign or leading zeros, the usual case. Returns
// nothing for any other text.
constexpr std::optional<std::int64_t> small_number(std::string_view text) noexcept {
  constexpr std::size_t kMostDigits = 9;
  if (text.empty() || text.size() > kMostDigits || text.front() == '0') return {};
  std::int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + (c - '0');
  }
  return number;
}

// Reads a whole number like Redis: no sign except '-', no leading zeros, no spaces. Returns nothing
// if the text is not such a number or needs more than 64 bits.
inline std::optional<std::int64_t> whole_number(std::string_view text) noexcept {
  if (const auto small = small_number(text)) return small;
  const bool negative = !text.empty() && text.front() == '-';
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || (digits.front() == '0' && (negative || digits.size() > 1))) return {};
  if (digits.front() < '0' || digits.front() > '9') return {};
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return {};
  return number;
}

}  // namespace sluice
