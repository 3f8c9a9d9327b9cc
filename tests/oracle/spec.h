#pragma once

#include <cstdint>
#include <optional>

#include "tests/oracle/calendar.h"

namespace sluice_oracle {

inline constexpr std::uint64_t kMaxUnits = 4294967295u;  // of a limit, a burst, a cost
inline constexpr std::uint64_t kMaxAmount = (std::uint64_t{1} << 53) - 1;  // of a budget, its costs

enum class Algorithm {
  kFixedWindow,
  kSlidingWindowLog,
  kSlidingWindowCounter,
  kSlidingWindowHybrid,
  kLeakyBucket,
  kTokenBucket,
  kGcra,
  kConcurrency,
  kBudget,
};
enum class Align { kFirstRequest, kClock };
enum class Weighting { kLinear, kNone };
enum class Mode { kMeter, kQueue };
enum class Refill { kContinuous, kInterval };
enum class OnExpiry { kCharge, kRelease };

// A limit as a user writes it; an absent option has its default.
struct Spec {
  Algorithm algorithm = Algorithm::kTokenBucket;
  std::uint64_t limit = 0;
  std::int64_t per_us = 0;  // kConcurrency: the lease; with a calendar its usual length
  std::optional<Calendar> calendar = {};
  std::optional<std::uint64_t> burst = {};
  std::optional<Align> align = {};
  std::optional<std::uint64_t> slices = {};
  std::optional<Weighting> weighting = {};
  std::optional<Mode> mode = {};
  std::optional<Refill> refill = {};
  // kBudget
  bool never = false;  // it does not renew, and per_us is 0
  std::optional<OnExpiry> on_expiry = {};
  std::optional<std::int64_t> remember_us = {};
  std::optional<std::uint64_t> holds = {};
};

// Returns whether the limit is valid: every number is in its range, every option applies to the
// algorithm, and an empty bucket is full again within 2^52 ticks.
bool is_valid(const Spec& spec);

bool is_bucket(Algorithm algorithm);
bool holds_permits(const Spec& spec);
bool is_budget(const Spec& spec);

// Returns the units that an untouched limit holds.
std::uint64_t capacity(const Spec& spec);
// Returns the number of slices of a window.
std::uint64_t slices(const Spec& spec);
bool at_intervals(const Spec& spec);
bool aligned_to_clock(const Spec& spec);
bool queues(const Spec& spec);
OnExpiry on_expiry(const Spec& spec);
std::int64_t remember_us(const Spec& spec);
std::uint64_t holds(const Spec& spec);

// Returns whether rate, capacity and refill are equal, in whatever form they are written. The
// amount consumed from a bucket depends on these numbers.
bool same_numbers(const Spec& a, const Spec& b);
// Returns whether the limits are equal in every respect.
bool same_limit(const Spec& a, const Spec& b);

}  // namespace sluice_oracle
