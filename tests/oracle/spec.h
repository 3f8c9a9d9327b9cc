#pragma once

#include <cstdint>
#include <optional>

namespace sluice_oracle {

enum class Algorithm {
  kFixedWindow,
  kSlidingWindowLog,
  kSlidingWindowCounter,
  kSlidingWindowHybrid,
  kLeakyBucket,
  kTokenBucket,
  kGcra,
};
enum class Align { kFirstRequest, kClock };
enum class Weighting { kLinear, kNone };
enum class Mode { kMeter, kQueue };
enum class Refill { kContinuous, kInterval };

// A limit as it is written down; what is absent has its default.
struct Spec {
  Algorithm algorithm = Algorithm::kTokenBucket;
  std::uint64_t limit = 0;
  std::int64_t per_us = 0;
  std::optional<std::uint64_t> burst = {};
  std::optional<Align> align = {};
  std::optional<std::uint64_t> slices = {};
  std::optional<Weighting> weighting = {};
  std::optional<Mode> mode = {};
  std::optional<Refill> refill = {};
};

// Whether the limit may be made at all: every number within its range, every option one of its
// algorithm, and an emptied bucket full again within 2^52 ticks.
bool is_valid(const Spec& spec);

bool is_bucket(Algorithm algorithm);

// Units that it holds when untouched.
std::uint64_t capacity(const Spec& spec);
// The number of slices a window is cut into.
std::uint64_t slices(const Spec& spec);
bool at_intervals(const Spec& spec);
bool aligned_to_clock(const Spec& spec);
bool queues(const Spec& spec);

// Whether the rate, the capacity and the way of refilling are the same, however they are spelled:
// the numbers on which what was consumed of a bucket depends.
bool same_numbers(const Spec& a, const Spec& b);
// Whether the limits are the same in everything.
bool same_limit(const Spec& a, const Spec& b);

}  // namespace sluice_oracle
