#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>

// Unbounded integers and fractions, and their rounding.
namespace sluice_oracle {

using Integer = boost::multiprecision::cpp_int;
using Rational = boost::multiprecision::cpp_rational;

// The last instant, and the longest wait: 2^52 ticks of one microsecond.
inline constexpr std::int64_t kLongestWait = std::int64_t{1} << 52;

// Rounds a number that is not negative.
inline Integer round_down(const Rational& x) {
  return boost::multiprecision::numerator(x) / boost::multiprecision::denominator(x);
}

inline Integer round_up(const Rational& x) {
  const Integer down = round_down(x);
  return Rational(down) == x ? down : down + 1;
}

}  // namespace sluice_oracle
