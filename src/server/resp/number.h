#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::server::resp {

// A whole number as Redis reads one: no sign but '-', no leading zeros, no spaces; absent where it
// is none or needs more than 64 bits.
inline std::optional<std::int64_t> whole_number(std::string_view text) noexcept {
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

}  // namespace sluice::server::resp
