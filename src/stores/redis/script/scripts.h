#pragma once

#include <cstdint>

#include "sluice/limit.h"
#include "stores/redis/client/command.h"

namespace sluice::redis {

// Algorithms that one function of a script decides. A script contains the functions that the
// families of its charges need.
enum class Family : std::uint8_t {
  kBucket,
  kInterval,
  kFixedWindow,
  kSlidingWindowCounter,
  kSlidingWindowLog,
  kSlidingWindowHybrid
};
inline constexpr int kFamilies = 6;

constexpr Family family_of(const Limit& limit) noexcept {
  switch (limit.algorithm()) {
    case Algorithm::kFixedWindow: return Family::kFixedWindow;
    case Algorithm::kSlidingWindowLog: return Family::kSlidingWindowLog;
    case Algorithm::kSlidingWindowCounter: return Family::kSlidingWindowCounter;
    case Algorithm::kSlidingWindowHybrid: return Family::kSlidingWindowHybrid;
    case Algorithm::kLeakyBucket:
    case Algorithm::kTokenBucket:
    case Algorithm::kGcra: break;
  }
  return limit.refill() == Refill::kInterval ? Family::kInterval : Family::kBucket;
}

// A set of families: bit i for family i.
using Families = std::uint8_t;
constexpr Families bit_of(Family family) noexcept {
  return static_cast<Families>(1u << static_cast<unsigned>(family));
}
// The number of a family in a script for `families`, from 1.
int number_of(Family family, Families families) noexcept;

// Return the script for a take of one charge at the server's time, and the script for any request.
// The first call composes a script, which is kept until the program ends. Thread-safe.
const Script& script_for_one(Family family);
const Script& script_for(Families families);

}  // namespace sluice::redis
