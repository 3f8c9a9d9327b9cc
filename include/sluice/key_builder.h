#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

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
// a `const char*` ends at its first NUL), an optional of one, and a tuple or pair of them.
template <typename T>
concept KeyValue = detail::kIsKeyValue<std::remove_cvref_t<T>>;

// Makes a key of several values, such as a user and a path. Each sequence of values has a key of
// its own; if you join texts yourself, ("a", "b_c") and ("a_b", "c") can share a counter.
//
//   const sluice::KeyBuilder key(request.user, request.path);
//   const sluice::Decision decision = limiter.try_acquire(key.view(), kPerUserAndPath);
//
// The bytes of each value:
//   integer, enumeration    its decimal digits and ';'     42;
//   text, char              its length, ':', its bytes     5:alice
//   optional                '+' and the value, or '~'      a null `const char*` is '~' too
//   tuple, pair             its elements
//
// Thread-safety: one thread at a time. Ownership: copies the values. Cost: a copy of the bytes; it
// holds 256 of them without an allocation. Errors: throws std::bad_alloc.
class KeyBuilder {
 public:
  // An empty key.
  KeyBuilder() noexcept = default;
  // The key of these values.
  template <KeyValue... T>
    requires(sizeof...(T) > 0)
  explicit KeyBuilder(const T&... values) {
    (add(values), ...);
  }
  KeyBuilder(const KeyBuilder&) = delete;
  KeyBuilder& operator=(const KeyBuilder&) = delete;

  // The key. It is valid until a value is added or the builder ends.
  std::string_view view() const noexcept { return {data_, size_}; }
  // The length of the key in bytes.
  std::size_t size() const noexcept { return size_; }

  // Appends a value.
  template <KeyValue T>
  KeyBuilder& add(const T& value) {
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
    return *this;
  }
  // Appends the key of another builder.
  KeyBuilder& add_composed(std::string_view key) {
    reserve(key.size());
    append(key);
    return *this;
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
    static_assert(sizeof(T) <= sizeof(std::uint64_t),
                  "sluice: a key has numbers of at most 64 bits");
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

}  // namespace sluice
