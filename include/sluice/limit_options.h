#pragma once

#include <cstdint>

namespace sluice {

// When a fixed window opens. kFirstRequest: at its first admitted request. kClock: at multiples of
// the period since the Unix epoch, in UTC.
enum class Align : std::uint8_t { kFirstRequest, kClock };

// How a sliding window counter counts its oldest slice. kLinear: by the share of the slice that is
// still inside the window. kNone: whole, so that the limit is never exceeded.
enum class Weighting : std::uint8_t { kLinear, kNone };

// What a leaky bucket does with requests ahead of others. kMeter: it admits or denies. kQueue: it
// admits by the same test, and reports how long the request has to wait (Decision::delay).
enum class LeakyMode : std::uint8_t { kMeter, kQueue };

// How a token bucket refills. kContinuous: evenly over the period. kInterval: the whole limit at
// once, every period from the first use of the bucket.
enum class Refill : std::uint8_t { kContinuous, kInterval };

}  // namespace sluice
