#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/store.h"

namespace sluice::rules {

// A request that waits for the limits of rules: the questions of a detail::WaitingCall. Rules in
// shadow mode are decided once, when the wait ends, however often the request has asked.
//
// Thread-safety: one thread at a time. Ownership: borrows the attributes and the costs, and in each
// call the decider. The rules and the decider's answer must be valid until the next call.
class RuleWait {
 public:
  RuleWait(const AttributeSource& attributes, const RequestCosts& costs)
      : attributes_(attributes), costs_(costs) {}

  // Decides the enforced rules that match, or that rule.
  Decision ask(RuleDecider& decider, const RuleSet& rules, const Rule* rule, Action action);
  // The permit that the last ask() has taken, in the answer to it; empty: none.
  std::string_view permit() const noexcept { return answer_->permit; }
  // Gives back what the last ask() has taken, except the permit.
  void refund(RuleDecider& decider, const RuleSet& rules, const Rule* rule);
  // The charges of the enforced limits in the last ask(), and their decisions.
  std::span<const Charge> charges() const noexcept { return charges_; }
  std::span<const Decision> each() const noexcept { return each_; }

  // Whether ask() has been called.
  bool has_asked() const noexcept { return answer_ != nullptr; }
  // The wait ended with this decision: decides the rules in shadow mode. ask() was called, with the
  // same decider.
  const RuleAnswer& end(RuleDecider& decider, const Decision& decision, Action action);

 private:
  const RuleAnswer& decide(RuleDecider& decider, const RuleSet& rules, const Rule* rule,
                           Action action, bool leaves_permits);

  const AttributeSource& attributes_;
  const RequestCosts& costs_;
  const RuleAnswer* answer_ = nullptr;
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
};

}  // namespace sluice::rules
