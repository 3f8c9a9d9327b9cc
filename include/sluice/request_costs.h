#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

// The units that a request takes from the limit of a rule with that name. A plain value that
// borrows the name.
struct LimitCost {
  std::string_view limit;
  std::uint64_t units = 1;
};

// The costs that a request gives for the limits of the rules that match it (docs/rules.md, Costs).
// A number converts to it.
//
//   decider.decide(rules, attributes, 3);
//   const sluice::LimitCost costs[] = {{"requests", 1}, {"tokens", 700}};
//   decider.decide(rules, attributes, {1, costs});
//
// A plain value that borrows `limits`.
struct RequestCosts {
  // Costs of that many units; 0 takes nothing. `limits` has its own cost for some limits.
  RequestCosts(std::uint64_t for_all = 1, std::span<const LimitCost> by_name = {}) noexcept
      : units(for_all), limits(by_name) {}

  std::uint64_t units;  // for limits with `cost: request`, and for limits without `cost`
  // For the limits of these names, whatever their `cost` is. A name that no limit of the matching
  // rules has makes the request kInvalid.
  std::span<const LimitCost> limits;
  // `units` is only for limits with `cost: request`; limits without `cost` take one unit.
  bool only_if_wanted = false;
};

}  // namespace sluice
