#pragma once

#include <cstdint>
#include <vector>

#include "tests/oracle/counter.h"
#include "tests/property/probe.h"

// One counter in its own store, for all verbs.
namespace sluice_property {

using sluice_oracle::Algorithm;

inline constexpr std::int64_t kForever = std::int64_t{1} << 60;

class VerbProbe {
 public:
  explicit VerbProbe(const sluice_oracle::Spec& spec) : spec_(spec), limit_(limit_of(spec)) {}

  sluice::Decision take(std::int64_t at, std::uint64_t cost) {
    return apply(sluice::Verb::kTake, at, cost);
  }
  sluice::Decision peek(std::int64_t at, std::uint64_t cost) {
    return apply(sluice::Verb::kPeek, at, cost);
  }
  sluice::Decision refund(std::int64_t at, std::uint64_t cost) {
    return apply(sluice::Verb::kRefund, at, cost);
  }
  sluice::Decision charge(std::int64_t at, std::uint64_t cost) {
    return apply(sluice::Verb::kCharge, at, cost);
  }
  sluice::Decision at_most(std::int64_t at, std::uint64_t cost) {
    return apply(sluice::Verb::kTakeAtMost, at, cost);
  }
  sluice::Decision reserve(std::int64_t at, std::uint64_t cost, std::int64_t max_wait_us) {
    return apply({sluice::Verb::kReserve, sluice::Duration{max_wait_us}}, at, cost);
  }
  const sluice_oracle::Spec& spec() const { return spec_; }

 private:
  sluice::Decision apply(sluice::Action action, std::int64_t at, std::uint64_t cost) {
    return store_.apply_one(action, {"key", limit_, cost}, sluice::Instant{sluice::Duration{at}});
  }

  sluice_oracle::Spec spec_;
  sluice::MemoryStore store_{{.max_keys = 64, .shards = 1}};
  sluice::Limit limit_;
};

// Returns a limit whose counters can store many times its capacity.
inline sluice_oracle::Spec roomy_spec(Dice& dice, const std::vector<Algorithm>& algorithms) {
  for (;;) {
    const auto spec = random_spec(dice, algorithms[dice.below(algorithms.size())]);
    if (spec.limit > 0 && most_stored(spec) / 100 >= capacity(spec)) return spec;
  }
}

inline std::uint64_t random_cost(Dice& dice, const sluice_oracle::Spec& spec) {
  const std::uint64_t capacity = sluice_oracle::capacity(spec);
  return dice.chance(50) ? 1 + dice.below(std::min<std::uint64_t>(3, capacity))
                         : 1 + dice.below(capacity);
}

inline std::int64_t random_gap(Dice& dice, const sluice_oracle::Spec& spec) {
  const std::int64_t per = spec.per_us;
  const auto limit = static_cast<std::int64_t>(spec.limit);
  return dice.any_of<std::int64_t>({0, 0, 1, per / limit, dice.between(0, per / limit),
                                    dice.between(0, per / 10), dice.between(0, per)});
}

}  // namespace sluice_property
