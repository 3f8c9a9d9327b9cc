#pragma once

#include <cstdint>

namespace sluice {

// What a request does to its counters.
enum class Verb : std::uint8_t {
  kTake,    // take all charges, or none
  kPeek,    // decide as kTake would, and change nothing
  kRefund,  // give back the newest `cost` units of each charge; never beyond untouched
  kReset,   // forget the counter of each charge; the cost is ignored
};

}  // namespace sluice
