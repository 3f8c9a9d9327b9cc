#include "rules/rule_wait.h"

#include <new>
#include <string>

#include "rules/rule_decider.h"
#include "rules/rule_set.h"

namespace sluice::rules {

Decision RuleWait::ask(Action action) noexcept try {
  answer_ = &decide(action, costs_, false);
  charges_.clear();
  each_.clear();
  for (const LimitAnswer& limit : answer_->limits) {
    if (limit.rule->mode == RuleMode::kShadow) continue;
    charges_.push_back({.key = limit.counter,
                        .limit = limit.numbers,
                        .cost = limit.cost,
                        .tag = limit.tag,
                        .alternative = limit.limit->alternative,
                        .rule = {Keyspace::kRules}});
    charges_.back().block = limit.limit->block_of_charges();
    each_.push_back(limit.decision);
  }
  return answer_->decision;
} catch (const std::bad_alloc&) {
  return Decision::refused(Reason::kStoreError);
}

// The permit, and then the rest.
void RuleWait::give_back() noexcept try {
  if (!answer_->permit.empty()) release_(std::string(answer_->permit));
  // To those limits from which the store has taken units: not if a failure policy has answered, and
  // of budgets in a row to the one that was charged.
  std::vector<LimitCost> limits;
  bool is_any_taken = false;
  for (const LimitAnswer& one : answer_->limits) {
    if (one.rule->mode == RuleMode::kShadow) continue;
    const bool is_taken = detail::took_units(one.decision);
    is_any_taken |= is_taken;
    if (is_taken && !one.limit->alternative) continue;
    limits.push_back({one.limit->name, is_taken ? one.cost : 0});
  }
  if (!is_any_taken) return;
  limits.insert(limits.end(), costs_.limits.begin(), costs_.limits.end());
  RequestCosts costs = costs_;
  costs.limits = limits;
  answer_ = &decide(Verb::kRefund, costs, true);
} catch (const std::bad_alloc&) {  // fewer units are admitted than possible, never more
}

std::span<const Charge> RuleWait::charges() noexcept {
  if (answer_ == nullptr) ask(Verb::kPeek);
  return charges_;
}

const RuleAnswer& RuleWait::decide(Action action, const RequestCosts& costs, bool leaves_permits) {
  const RequestPart part{&attributes_, costs};
  return decider_.impl_->decide(
      rules_.impl(), {.parts = {&part, 1}, .rule = rule_, .leaves_permits = leaves_permits},
      {.action = action, .leaves_shadow = true});
}

const RuleAnswer* RuleWait::end(const Decision& decision, Action action) {
  return answer_ != nullptr ? &decider_.impl_->decide_shadow(decision, action, each_) : nullptr;
}

}  // namespace sluice::rules
