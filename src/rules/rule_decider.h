#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "limiter/batch.h"
#include "rules/named_limits.h"
#include "sluice/permit_id.h"
#include "sluice/rule_decider.h"

namespace sluice {

// What a RuleDecider does. It keeps the latest request: its limits, its charges and the answer.
class RuleDecider::Impl {
 public:
  Impl(Limiter& limiter, const RuleStores& stores)
      : store_(&limiter.store()),
        stores_(stores),
        batch_({limiter.store(), stores.shadow, stores.local}) {}

  // What a charge follows: the work of a request, to settle, or its response, to report.
  struct Work {
    const RequestCosts* actual = nullptr;
    const AttributeSource* response = nullptr;
    bool leaves_permits = false;  // nothing is asked of limits with permits
  };

  const RuleAnswer& decide(const RuleSet::Impl& set, const AttributeSource& attributes,
                           const RequestCosts& costs, const BatchTerms& terms, const Work& work);
  const RuleAnswer& decide_parts(const RuleSet::Impl& set, std::string_view domain,
                                 std::span<const RequestPart> parts, const BatchTerms& terms);
  const RuleAnswer& decide_by(const RuleSet::Impl& set, const Rule& rule,
                              const AttributeSource& attributes, const RequestCosts& costs,
                              const BatchTerms& terms, const Work& work);
  // Decides the request of the latest decide() again, at another time: nothing is matched and no
  // counter is named. Only if can_repeat(), while the rules and what they borrow are the same.
  const RuleAnswer& repeat(Instant now);
  bool can_repeat() const noexcept { return can_repeat_; }
  // Ends the latest request with this decision, and decides the rules in shadow mode, which
  // BatchTerms::leaves_shadow has left.
  const RuleAnswer& decide_shadow(const Decision& enforced, const Action& action);
  Decision change_permit(Verb verb, std::string_view permit, std::optional<Instant> now);
  void refuse_permits(bool refuse) noexcept { refuses_permits_ = refuse; }

 private:
  void begin(const RuleSet::Impl& set, const BatchTerms& terms, const Work& work);
  void add(const rules::MatchedRule& matched, const rules::NamedLimit& named, ChargeTerms& terms);
  bool gives_back(const rules::NamedLimit& named) const noexcept;
  std::uint64_t units_of(const rules::NamedLimit& named) const noexcept;
  const RuleAnswer& answer(const BatchTerms& terms);
  void name_permit(Charge& charge);
  void fill_batch();
  const RuleAnswer& decide_batch(const BatchTerms& terms);
  void name_limits();
  void fill_limits();
  void drop_unlimited();
  void fill_decision(const Decision& enforced);
  void fill_permit(const Decision& enforced);

  Verb verb_ = Verb::kTake;
  bool settles_ = false;
  bool can_repeat_ = false;  // the latest request was a take that the store decided
  bool has_unlimited_ = false;
  rules::NamedLimits named_;
  Store* store_;
  RuleStores stores_;
  bool refuses_permits_ = false;
  std::optional<PermitId> permit_;  // of this request, if it needs one
  std::vector<Charge> held_;        // its charges
  Batch batch_;
  RuleAnswer answer_;
};

}  // namespace sluice
