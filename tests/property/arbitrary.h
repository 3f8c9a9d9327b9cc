#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "tests/property/generate.h"
#include "tests/property/history.h"

// RapidCheck wrappers of the generators.
namespace sluice_property {

// A seed for Dice. It is not shrunk because a smaller seed gives no simpler case.
inline rc::Gen<std::uint64_t> any_seed() {
  return rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
}

// A valid limit of one of the algorithms.
inline rc::Gen<sluice_oracle::Spec> any_spec(
    const std::vector<sluice_oracle::Algorithm>& algorithms) {
  return rc::gen::map(any_seed(), [=](std::uint64_t seed) {
    Dice dice(seed);
    const sluice_oracle::Algorithm algorithm = algorithms[dice.below(algorithms.size())];
    return random_spec(dice, algorithm);
  });
}

}  // namespace sluice_property

namespace sluice_oracle {

inline void showValue(const Spec& spec, std::ostream& out) {
  out << sluice_property::to_json(spec);
}

}  // namespace sluice_oracle
