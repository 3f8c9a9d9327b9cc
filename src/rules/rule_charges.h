#pragma once

#include <span>
#include <vector>

#include "sluice/rule_answer.h"
#include "sluice/store.h"

namespace sluice::rules {

// The charges of the enforced limits of an answer, and their decisions. They borrow what the answer
// borrows.
class RuleCharges {
 public:
  void read(const RuleAnswer& answer) {
    charges_.clear();
    each_.clear();
    for (const LimitAnswer& limit : answer.limits) {
      if (limit.rule->mode == RuleMode::kShadow) continue;
      charges_.push_back({limit.counter, limit.numbers, limit.cost, limit.tag, Keyspace::kRules});
      charges_.back().block = limit.limit->block_of_charges();
      each_.push_back(limit.decision);
    }
  }
  std::span<const Charge> charges() const noexcept { return charges_; }
  std::span<const Decision> each() const noexcept { return each_; }

 private:
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
};

}  // namespace sluice::rules
