#pragma once

#include <cstddef>
#include <cstdlib>

namespace sluice::testing {

// Returns how many random cases a test runs: `few`, or `many` with ./dev test --long, which sets
// SLUICE_LONG_TESTS.
inline std::size_t random_cases(std::size_t few, std::size_t many) {
  return std::getenv("SLUICE_LONG_TESTS") != nullptr ? many : few;
}

}  // namespace sluice::testing
