#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "metrics/metrics.h"
#include "server/logging/log.h"
#include "server/rules/rules_manager.h"
#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// What every door asks for decisions, whatever it speaks: attributes in, a decision out, counted
// and logged. Its answer is put into words by answer_fields.h and rejection.h.
//
// One Session for each event loop, used by that loop's thread only, or where the store waits, for
// each request that is under way in it; the store, the rules and the metrics behind it are shared.
// Ownership: borrows all that it is given. Cost: one atomic load
// beside the decision; nothing is allocated once its buffers have grown.
class Session {
 public:
  struct Parts {
    Limiter& limiter;
    const RulesManager& rules;
    metrics::Recorder& recorder;
    DenialLog& denials;
    RuleStores stores = {};
  };
  explicit Session(const Parts& parts);

  // By the rules in force now. The answer is valid until the next call.
  const RuleAnswer& decide(const AttributeSource& attributes, std::uint64_t cost = 1,
                           Verb verb = Verb::kTake);
  // By the rule of that name, matching or not; null where none of the rules in force has it.
  const RuleAnswer* decide_by(std::string_view rule, const AttributeSource& attributes,
                              std::uint64_t cost = 1, Verb verb = Verb::kTake);
  // The same of a request of several parts, by the rules of one domain.
  const RuleAnswer& decide_parts(std::string_view domain, std::span<const RequestPart> parts,
                                 Verb verb = Verb::kTake);
  // Of a take that no rule decided, as the request told its limit and its key itself: counts and
  // logs it like the others.
  void tell(std::string_view key, const Decision& decision);
  // Goes over to the rules in force, if they are others. decide() does so by itself; a loop without
  // requests is told to, so that it lets go of the old ones.
  void follow_rules();

 private:
  void tell(const RuleAnswer& answer);
  void count(const RuleAnswer& answer);

  const RulesManager* manager_;
  metrics::Recorder* recorder_;
  DenialLog* denials_;
  RuleDecider request_;
  std::uint64_t version_;
  RuleSet rules_;
  RuleAnswer without_rule_;  // never of any limit
};

}  // namespace sluice::server
