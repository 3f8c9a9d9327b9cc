#include "rules/remembered_requests.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "rules/rule_decider.h"

namespace sluice::rules {

RememberedRequests::RememberedRequests(Limiter& limiter, const RuleSet& rules,
                                       const RuleStores& stores)
    : limiter_(limiter),
      rules_(rules),
      stores_(stores),
      decider_(limiter, stores),
      remembered_(kRemembered) {}

const RuleAnswer& RememberedRequests::decide(std::string_view name,
                                             const AttributeSource& attributes, Instant now) {
  if (name.empty()) return decider_.decide(rules_, attributes, 1, now);
  if (last_ == nullptr || last_->name != name) last_ = &place_of(name);
  if (last_->name == name) return last_->decider.impl_->repeat(now);
  last_->name.clear();
  const RuleAnswer& answer = last_->decider.decide(rules_, attributes, 1, now);
  if (last_->decider.impl_->can_repeat()) last_->name = name;
  return answer;
}

RememberedRequests::Remembered& RememberedRequests::place_of(std::string_view name) {
  std::optional<Remembered>& place =
      remembered_[XXH3_64bits(name.data(), name.size()) % kRemembered];
  if (!place) place.emplace(Remembered{{}, RuleDecider(limiter_, stores_)});
  return *place;
}

}  // namespace sluice::rules
