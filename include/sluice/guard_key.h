#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/path.h"

// What guards (guard.h) make their keys from.
namespace sluice {
namespace detail {

template <typename T>
inline constexpr bool kIsText =
    std::convertible_to<const T&, std::string_view> && !std::is_null_pointer_v<T>;
template <typename T>
inline constexpr bool kIsKeyValue = std::integral<T> || std::is_enum_v<T> || kIsText<T>;
template <typename T>
inline constexpr bool kIsKeyValue<std::optional<T>> = kIsKeyValue<T>;
template <typename... T>
inline constexpr bool kIsKeyValue<std::tuple<T...>> = (kIsKeyValue<std::remove_cvref_t<T>> && ...);
template <typename A, typename B>
inline constexpr bool kIsKeyValue<std::pair<A, B>> = kIsKeyValue<std::tuple<A, B>>;

}  // namespace detail

// A value that a key can hold: an integer, an enumeration, text (what converts to std::string_view;
// a `const char*` ends at its first NUL), an optional of one, and a tuple or pair of them
// (std::tie).
template <typename T>
concept KeyValue = detail::kIsKeyValue<std::remove_cvref_t<T>>;

// A key under composition: values one after another, so that what was added can be read back in one
// way only and no two sequences of values make the same bytes.
//
//   integer, enumeration    its decimal digits and ';'     42;
//   text, char              length ':' bytes               5:alice
//   optional                '+' and the value, or '~'      a null `const char*` is '~' too
//   tuple, pair             its elements
//
// Not thread-safe. Holds its bytes: 256 of them without an allocation; beyond, on the heap.
class KeyBuffer {
 public:
  KeyBuffer() noexcept = default;
  KeyBuffer(const KeyBuffer&) = delete;
  KeyBuffer& operator=(const KeyBuffer&) = delete;

  std::string_view view() const noexcept { return {data_, size_}; }
  std::size_t size() const noexcept { return size_; }

  // Bytes that are themselves a sequence of values.
  void add_composed(std::string_view bytes) {
    reserve(bytes.size());
    append(bytes);
  }

  template <KeyValue T>
  void add(const T& value) {
    if constexpr (std::same_as<T, char>) {
      add_text({&value, 1});
    } else if constexpr (std::is_enum_v<T>) {
      add_number(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::integral<T>) {
      add_number(value);
    } else if constexpr (std::is_pointer_v<T>) {
      value == nullptr ? add_byte('~') : add_text(value);
    } else if constexpr (detail::kIsText<T>) {
      add_text(value);
    } else {
      add_compound(value);
    }
  }

 private:
  static constexpr std::size_t kInPlace = 256;
  static constexpr std::size_t kMostDigits = 21;

  void reserve(std::size_t more) {
    if (capacity_ - size_ < more) grow(more);
  }
  void grow(std::size_t more) {
    const std::size_t capacity = 2 * capacity_ + more;
    auto bigger = std::make_unique_for_overwrite<char[]>(capacity);
    std::memcpy(bigger.get(), data_, size_);
    heap_ = std::move(bigger);
    data_ = heap_.get();
    capacity_ = capacity;
  }
  void append(std::string_view bytes) noexcept {
    if (bytes.empty()) return;
    std::memcpy(data_ + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void add_byte(char byte) {
    reserve(1);
    data_[size_++] = byte;
  }

  template <typename T>
  void add_digits(T number, char end) noexcept {
    char* const to = std::to_chars(data_ + size_, data_ + capacity_, number).ptr;
    *to = end;
    size_ = static_cast<std::size_t>(to + 1 - data_);
  }
  template <typename T>
  void add_number(T number) {
    reserve(kMostDigits + 1);
    if constexpr (std::is_signed_v<T>) {
      add_digits(static_cast<std::int64_t>(number), ';');
    } else {
      add_digits(static_cast<std::uint64_t>(number), ';');
    }
  }
  void add_text(std::string_view text) {
    reserve(kMostDigits + 1 + text.size());
    add_digits(text.size(), ':');
    append(text);
  }
  template <typename T>
  void add_compound(const std::optional<T>& value) {
    add_byte(value ? '+' : '~');
    if (value) add(*value);
  }
  template <typename T>
  void add_compound(const T& values) {
    std::apply([&](const auto&... value) { (add(value), ...); }, values);
  }

  char* data_ = in_place_;
  std::size_t size_ = 0;
  std::size_t capacity_ = kInPlace;
  std::unique_ptr<char[]> heap_;
  char in_place_[kInPlace];
};

namespace detail {

template <typename>
inline constexpr bool kNever = false;

// What `of` (a projection) makes of the arguments of a call: given all of them where it takes all,
// else given the first one that it takes.
template <typename Of>
constexpr decltype(auto) project(const Of&) {
  static_assert(
      kNever<Of>,
      "sluice: a key, cost or attribute of a guard must be callable with all arguments of "
      "the guarded call, or with one of them (as const references)");
}
template <typename Of, typename First, typename... Rest>
constexpr decltype(auto) project_one(const Of& of, const First& first, const Rest&... rest) {
  if constexpr (std::invocable<const Of&, const First&>) {
    return std::invoke(of, first);
  } else if constexpr (sizeof...(Rest) > 0) {
    return project_one(of, rest...);
  } else {
    return project(of);
  }
}
template <typename Of, typename... Args>
requires(sizeof...(Args) > 0 || std::invocable<const Of&>) constexpr decltype(auto)
    project(const Of& of, const Args&... args) {
  if constexpr (std::invocable<const Of&, const Args&...>) {
    return std::invoke(of, args...);
  } else {
    return project_one(of, args...);
  }
}

template <typename T>
void add_to_key(KeyBuffer& key, const T& value) {
  static_assert(KeyValue<T>,
                "sluice: a key is an integer, an enumeration, text, or an optional, tuple or pair "
                "of these");
  if constexpr (KeyValue<T>) key.add(value);
}

}  // namespace detail
}  // namespace sluice
