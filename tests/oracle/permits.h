#pragma once

#include <cstdint>
#include <vector>

#include "tests/oracle/exact.h"

namespace sluice_oracle {

struct Counter;

// Units in flight until their lease ends. An admitted request has one permit: all its entries, in
// whatever counters, have the same id.
struct Permit {
  std::int64_t end = 0;
  std::int64_t lease = 0;
  std::uint64_t id = 0;
  Integer units;
};

// The live permits, in the order in which they were taken.
struct Permits {
  std::vector<Permit> live;
};

Rational consumed_of(const Permits& permits, const Counter& counter, std::int64_t instant);
// Takes a permit with the id 0.
void take_from(Permits& permits, const Counter& counter, std::int64_t instant, const Integer& cost);
Rational refund_to(Permits& permits, const Counter& counter, std::int64_t instant,
                   const Integer& cost);

// Gives the newest permit its id.
void name_newest(Counter& counter, std::uint64_t id);
// Ends the permit, or restarts its lease. Returns false, and changes nothing, if the counter has
// no such permit or if its lease has ended.
bool release(Counter& counter, std::int64_t instant, std::uint64_t id);
bool extend(Counter& counter, std::int64_t instant, std::uint64_t id);

}  // namespace sluice_oracle
