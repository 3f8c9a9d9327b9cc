#include "rules/rule_wait.h"

#include <new>

#include "rules/rule_decider.h"
#include "rules/rule_set.h"

namespace sluice::rules {

Decision RuleWait::ask(Action action) noexcept try {
  const RequestPart part{&attributes_, costs_};
  answer_ = &decider_.impl_->decide(rules_.impl(), {.parts = {&part, 1}, .rule = rule_},
                                    {.action = action, .leaves_shadow = true});
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

void RuleWait::give_back() noexcept try {
  if (!answer_->permit.empty()) release_(answer_->permit);
  decider_.impl_->give_back();
} catch (const std::bad_alloc&) {  // fewer units are admitted than possible, never more
}

std::span<const Charge> RuleWait::charges() noexcept {
  if (answer_ == nullptr) ask(Verb::kPeek);
  return charges_;
}

const RuleAnswer* RuleWait::end(const Decision& decision, Action action) {
  return answer_ != nullptr ? &decider_.impl_->decide_shadow(decision, action, each_) : nullptr;
}

}  // namespace sluice::rules
