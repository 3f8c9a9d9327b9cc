#pragma once

#include <cstddef>
#include <vector>

#include "tests/oracle/exact.h"

// Weighted max-min fairness, as textbooks define it.
namespace sluice_oracle {

struct Demand {
  Rational asked;
  Rational weight;
  Rational at_least;
};

// Divides `total`: all parts begin with `at_least` and rise together, each as fast as its weight
// allows, from the level at which its weight gives it more than that. A part ceases to rise when
// it is what was asked for. All cease when the total is used up. If the least parts are more than
// the total, they are scaled down. Exact; takes quadratic time.
std::vector<Rational> fair_parts(const std::vector<Demand>& demands, const Rational& total);

// What passes through several limits: `limits` are places in a list of limits.
struct Flow {
  Rational asked;
  Rational weight;
  std::vector<std::size_t> limits;
};

// Max-min fairness with several limits: all flows rise together from nothing, each as fast as its
// weight says. A flow ceases to rise when it is what was asked for, or when one of its limits is
// used up. Exact; takes quadratic time.
std::vector<Rational> fair_rates(const std::vector<Flow>& flows,
                                 const std::vector<Rational>& limits);

}  // namespace sluice_oracle
