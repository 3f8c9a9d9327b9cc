#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::redis {

// A number of a record: its name in the contract, its member of T, and its size in bytes.
template <typename T>
struct Field {
  std::string_view name;
  std::uint64_t T::* member;
  std::size_t size;
};

// The bytes of a record: N numbers, each in a fixed number of bytes, the least significant first.
// The scripts read and write the same bytes by struct.unpack() and struct.pack() with format().
// Immutable.
template <typename T, std::size_t N>
class Layout {
 public:
  constexpr explicit Layout(const Field<T> (&fields)[N]) {
    for (std::size_t i = 0; i < N; ++i) {
      fields_[i] = fields[i];
      size_ += fields[i].size;
      format_[1 + 2 * i] = 'I';
      format_[2 + 2 * i] = static_cast<char>('0' + fields[i].size);
    }
  }

  // In bytes.
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr std::span<const Field<T>> fields() const noexcept { return fields_; }
  // "<I2I7I4" for numbers of 2, 7 and 4 bytes. Refers to this layout.
  constexpr std::string_view format() const noexcept { return {format_.data(), format_.size()}; }

  // Reads the first size() bytes. The caller ensures that there are enough.
  constexpr T read(std::string_view bytes) const noexcept {
    T record{};
    std::size_t at = 0;
    for (const Field<T>& field : fields_) {
      for (std::size_t i = 0; i < field.size; ++i) {
        record.*field.member |= std::uint64_t{static_cast<unsigned char>(bytes[at++])} << (8 * i);
      }
    }
    return record;
  }

  // Like read(), and removes the bytes it has read.
  constexpr T take(std::string_view& bytes) const noexcept {
    const T record = read(bytes);
    bytes.remove_prefix(size());
    return record;
  }

  void append(const T& record, std::string& out) const {
    for (const Field<T>& field : fields_) {
      for (std::size_t i = 0; i < field.size; ++i) {
        out += static_cast<char>(record.*field.member >> (8 * i) & 0xFF);
      }
    }
  }

 private:
  std::array<Field<T>, N> fields_{};
  std::array<char, 1 + 2 * N> format_{'<'};
  std::size_t size_ = 0;
};

}  // namespace sluice::redis
