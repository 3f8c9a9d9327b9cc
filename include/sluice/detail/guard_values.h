#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "sluice/key_builder.h"

// How guards read values from the arguments of a call.
namespace sluice::detail {

template <typename>
inline constexpr bool kNever = false;

// Returns what a projection makes of the arguments of a call. It receives all of them if it accepts
// all, else the first one that it accepts.
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
  requires(sizeof...(Args) > 0 || std::invocable<const Of&>)
constexpr decltype(auto) project(const Of& of, const Args&... args) {
  if constexpr (std::invocable<const Of&, const Args&...>) {
    return std::invoke(of, args...);
  } else {
    return project_one(of, args...);
  }
}

// Returns the units that a call costs: a number, or what a projection makes of the arguments. A
// negative one exceeds every limit.
template <typename Units, typename... Args>
std::uint64_t cost_of(const Units& units, const Args&... args) {
  if constexpr (std::convertible_to<Units, std::uint64_t>) {
    return static_cast<std::uint64_t>(units);
  } else {
    static_assert(std::integral<std::remove_cvref_t<decltype(project(units, args...))>>,
                  "sluice: the cost of a call is an integer");
    return static_cast<std::uint64_t>(project(units, args...));
  }
}

// Appends a value of a guard's key.
template <typename T>
void add_to_key(KeyBuilder& key, const T& value) {
  static_assert(KeyValue<T>,
                "sluice: a key is an integer, an enumeration, text, or an optional, tuple or pair "
                "of these");
  if constexpr (KeyValue<T>) key.add(value);
}

}  // namespace sluice::detail
