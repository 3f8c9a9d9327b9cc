#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "limiter/waits.h"
#include "sluice/attributes.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/store.h"

namespace sluice::rules {

// A request that waits for the limits of rules, on its thread unless park() and wake() are
// overridden. Rules in shadow mode are decided once, when the wait ends, however often the request
// has asked.
//
// Thread-safety: one thread at a time, except wake(). Ownership: borrows all arguments. The rules
// may change before ask(); the decider's answer must be valid until the next call.
class RuleWait : public detail::WaitingThread {
 public:
  // Asks the enforced rules that match, or that rule. `release` ends a permit by its text.
  RuleWait(
      RuleDecider& decider, const RuleSet& rules, const Rule* rule,
      const AttributeSource& attributes, const RequestCosts& costs,
      std::function<void(std::string_view permit)> release = [](std::string_view) {})
      : decider_(decider),
        rules_(rules),
        rule_(rule),
        attributes_(attributes),
        costs_(costs),
        release_(std::move(release)) {}

  // See WaitingCall.
  Decision ask(Action action) noexcept override;
  void give_back() noexcept override;
  std::span<const Charge> charges() noexcept override;
  std::span<Decision> each() noexcept override { return each_; }

  // The wait ended with this decision: decides the rules in shadow mode. Null if there was no
  // memory to ask.
  const RuleAnswer* end(const Decision& decision, Action action);

 private:
  RuleDecider& decider_;
  const RuleSet& rules_;
  const Rule* const rule_;
  const AttributeSource& attributes_;
  const RequestCosts& costs_;
  const std::function<void(std::string_view permit)> release_;
  const RuleAnswer* answer_ = nullptr;  // to the last ask()
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
};

}  // namespace sluice::rules
