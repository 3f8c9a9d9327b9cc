#pragma once

#include <cstdint>

#include "tests/oracle/counter.h"
#include "tests/oracle/exact.h"

// Counters that store more than their limit: what a charge and a reservation may add to them.
namespace sluice_oracle {

// Returns the units that the counter stores and that still count, without any weight.
Rational stored(const Counter& counter, std::int64_t instant);

enum class Charged { kNone, kSome, kAll };
// Adds `cost` > 0 units whatever the limit says, up to most_stored(). Returns how many were added.
// If none was, nothing has changed.
Charged charge(Counter& counter, std::int64_t instant, const Integer& cost);

}  // namespace sluice_oracle
