#pragma once

#include <cstdint>

namespace sluice::core {

// Instants and waits inside the core: microseconds, as in Duration, below 2^53.
using Ticks = std::int64_t;

// Products of units (below 2^33) and ticks (below 2^53).
__extension__ using Wide = unsigned __int128;

// b > 0: a limit of nothing is never asked how long.
template <typename T>
constexpr T ceil_div(T a, T b) noexcept {
  return static_cast<T>(a / b + (a % b != 0));  // NOLINT(clang-analyzer-core.DivideZero)
}

// ⌈(a·m + add) / d⌉ for a result that fits in 64 bits; the 128-bit division only where it must be.
constexpr std::uint64_t ceil_mul_div(std::uint64_t a, std::uint64_t m, std::uint64_t add,
                                     std::uint64_t d) noexcept {
  std::uint64_t product = 0;
  if (!__builtin_mul_overflow(a, m, &product) && !__builtin_add_overflow(product, add, &product)) {
    return ceil_div(product, d);
  }
  return static_cast<std::uint64_t>(ceil_div(Wide{a} * m + add, Wide{d}));
}

// ⌊a·m / d⌋ for a result that fits in 64 bits.
constexpr std::uint64_t floor_mul_div(std::uint64_t a, std::uint64_t m, std::uint64_t d) noexcept {
  return static_cast<std::uint64_t>(Wide{a} * m / d);
}

// A counter never goes back: an instant before its last change is read as that one.
constexpr Ticks effective(Ticks now, Ticks last) noexcept { return now < last ? last : now; }

}  // namespace sluice::core
