#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>

// Whole numbers and fractions without a bound, and how they are rounded.
namespace sluice_oracle {

using Integer = boost::multiprecision::cpp_int;
using Rational = boost::multiprecision::cpp_rational;

// The end of time, and the longest wait: 2^52 ticks of a microsecond.
inline constexpr std::int64_t kLongestWait = std::int64_t{1} << 52;

// For numbers that are not negative.
inline Integer round_down(const Rational& x) {
  return boost::multiprecision::numerator(x) / boost::multiprecision::denominator(x);
}

inline Integer round_up(const Rational& x) {
  const Integer down = round_down(x);
  return Rational(down) == x ? down : down + 1;
}

}  // namespace sluice_oracle
