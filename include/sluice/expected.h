#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace sluice {

// Wraps the error that an Expected is made from: `return Unexpected{"burst must be at least 1"};`.
// A plain value that holds its error.
template <typename E>
struct Unexpected {
  E error;
};
// A text literal becomes a std::string.
template <typename E>
Unexpected(E) -> Unexpected<E>;
Unexpected(const char*) -> Unexpected<std::string>;

// A value, or the error that explains why there is none: the subset of C++23's std::expected that
// Sluice needs. Check it before you read the value.
//
// Thread-safety: that of T and E. Ownership: holds its T or E by value. Cost: one T or E and a
// discriminator; no allocation of its own. Errors: reading the side that is absent is a bug of the
// caller and ends the program (std::abort).
template <typename T, typename E = std::string>
class [[nodiscard]] Expected {
 public:
  using value_type = T;
  using error_type = E;

  // Made implicitly, so that a function returns a value or an Unexpected.
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // Made implicitly from an error that converts to E.
  template <typename G>
  Expected(Unexpected<G> unexpected)
      : state_(std::in_place_index<1>, std::move(unexpected.error)) {}

  // Whether there is a value.
  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  // The value. Aborts if there is an error instead.
  T& value() & { return *checked(std::get_if<0>(&state_)); }
  // As above, of a constant.
  const T& value() const& { return *checked(std::get_if<0>(&state_)); }
  // As above, to move from.
  T&& value() && { return std::move(*checked(std::get_if<0>(&state_))); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // The error. Aborts if there is a value instead.
  E& error() & { return *checked(std::get_if<1>(&state_)); }
  // As above, of a constant.
  const E& error() const& { return *checked(std::get_if<1>(&state_)); }

 private:
  template <typename P>
  static P checked(P pointer) noexcept {
    if (pointer == nullptr) std::abort();
    return pointer;
  }

  std::variant<T, E> state_;
};

// Success, or the error that explains the failure: what functions return that have no value.
//
// Thread-safety: read it from any thread. Ownership: holds its text. Cost: a text and a flag.
// Errors: reading the error of a success is a bug of the caller and ends the program (std::abort).
class [[nodiscard]] Status {
 public:
  // A success: `return {};`.
  Status() = default;
  // Made implicitly from an error: `return Unexpected{"there is no such file"};`.
  template <typename G>
  Status(Unexpected<G> unexpected) : error_(std::move(unexpected.error)) {}

  // Whether it is a success.
  bool has_value() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return has_value(); }

  // The error. Aborts if there is none.
  const std::string& error() const noexcept {
    if (!error_) std::abort();
    return *error_;
  }

 private:
  std::optional<std::string> error_;
};

}  // namespace sluice
