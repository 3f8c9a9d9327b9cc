#include "rules/rule_wait.h"

#include "rules/rule_decider.h"
#include "rules/rule_set.h"

namespace sluice::rules {

Decision RuleWait::ask(RuleDecider& decider, const RuleSet& rules, const Rule* rule,
                       Action action) {
  answer_ = &decide(decider, rules, rule, action, false);
  charges_.clear();
  each_.clear();
  for (const LimitAnswer& limit : answer_->limits) {
    if (limit.rule->mode == RuleMode::kShadow) continue;
    charges_.push_back({.key = limit.counter,
                        .limit = limit.numbers,
                        .cost = limit.cost,
                        .tag = limit.tag,
                        .rule = {Keyspace::kRules}});
    charges_.back().block = limit.limit->block_of_charges();
    each_.push_back(limit.decision);
  }
  return answer_->decision;
}

void RuleWait::refund(RuleDecider& decider, const RuleSet& rules, const Rule* rule) {
  answer_ = &decide(decider, rules, rule, Verb::kRefund, true);
}

const RuleAnswer& RuleWait::decide(RuleDecider& decider, const RuleSet& rules, const Rule* rule,
                                   Action action, bool leaves_permits) {
  const RequestPart part{&attributes_, costs_};
  return decider.impl_->decide(
      Access::impl(rules), {.parts = {&part, 1}, .rule = rule, .leaves_permits = leaves_permits},
      {.action = action, .leaves_shadow = true});
}

const RuleAnswer& RuleWait::end(RuleDecider& decider, const Decision& decision, Action action) {
  return decider.impl_->decide_shadow(decision, action);
}

}  // namespace sluice::rules
