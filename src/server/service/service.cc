#include "server/service/service.h"

namespace sluice::server {

Session::Session(const Parts& parts)
    : keeper_(&parts.rules),
      recorder_(&parts.recorder),
      denials_(&parts.denials),
      request_(parts.limiter, parts.stores),
      version_(parts.rules.version()),
      rules_(parts.rules.current()) {
  recorder_->use(rules_);
}

void Session::follow_rules() {
  const std::uint64_t version = keeper_->version();
  if (version == version_) return;
  version_ = version;  // read before the rules: a change between the two is followed once more
  rules_ = keeper_->current();
  recorder_->use(rules_);
}

const RuleAnswer& Session::decide(const AttributeSource& attributes, std::uint64_t cost,
                                  Verb verb) {
  follow_rules();
  const RuleAnswer& answer = request_.decide(rules_, attributes, cost, {}, verb);
  if (verb == Verb::kTake) {
    count(answer);
    if (!answer.decision.allowed()) denials_->write(answer);
  }
  return answer;
}

// While it waited for the answer, another session of the loop may have gone over to new rules.
void Session::count(const RuleAnswer& answer) {
  if (recorder_->uses(rules_)) {
    recorder_->count(answer);
  } else {
    recorder_->count_late(rules_, answer);
  }
}

}  // namespace sluice::server
