#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace sluice::core {

// Text that a constant expression composes, of at most N bytes. A longer text does not compile.
template <std::size_t N>
class FixedText {
 public:
  constexpr FixedText& append(std::string_view text) {
    for (const char c : text) bytes_[size_++] = c;
    return *this;
  }
  constexpr FixedText& append_upper(std::string_view text) {
    for (const char c : text)
      bytes_[size_++] = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return *this;
  }
  constexpr std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, N> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace sluice::core
