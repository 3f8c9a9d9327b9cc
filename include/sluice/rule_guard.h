#pragma once

#include <string_view>
#include <utility>

#include "sluice/detail/rule_gate.h"
#include "sluice/guard.h"
#include "sluice/rule_set.h"

// Rules on functions: the limits are in a file of rules, under the rule's name.
//
//   auto send = sluice::guarded(rules, limiter, "send-code")
//                   .with("email", &Request::email)
//                   .throwing(send_code);
//
// The rule's key templates read the attributes that the guard provides: `{email}`. The rule's
// `match` is not used. Its mode, failure policy and `on_missing` are.
namespace sluice {

// Returns a guard with the limits of the rule of that name; `rules` is a RuleSet or a LiveRules.
// Continue with `.with(NAME, VALUE)` for each attribute that the rule's keys and costs read (text,
// an integer, an enumeration, or an optional of one; an empty value is a missing one), with
// options, and with the function (Guard in guard.h).
//
// Errors: the last step throws std::invalid_argument if there is no such rule, if its plan, its tag
// or one of its keys or costs reads an attribute that the guard does not provide, or if the guard
// provides the cost of a limit that the rule does not have. Ownership: borrows the limiter and what
// `stores` names, such as overrides; they must outlive the guard and its functions. Cost of a
// guarded call: that of RuleDecider::decide; nothing is allocated once its buffers have grown.
inline auto guarded(LiveRules rules, Limiter& limiter, std::string_view rule,
                    const RuleStores& stores = {}) {
  using Gate = detail::RuleGate<>;
  return Guard<Gate>(Gate(std::move(rules), limiter, stores, rule), {.cost = 1});
}

}  // namespace sluice
