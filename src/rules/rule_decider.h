#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limiter/batch.h"
#include "rules/attributes.h"
#include "rules/override_text.h"
#include "rules/rule_set.h"
#include "sluice/attributes.h"
#include "sluice/decision.h"
#include "sluice/overrides.h"
#include "sluice/permit_id.h"
#include "sluice/rule.h"
#include "sluice/rule_decider.h"
#include "sluice/verb.h"

namespace sluice::rules {

// A limit that applies to the request. Its key and label are in the text of the decider.
//
// It is written where it is kept, as MatchedRule is: a copy of one just written member by member
// waits for all of these writes.
struct NamedLimit {
  NamedLimit(const RuleLimit& from, const Limit& its_numbers, std::uint32_t its_id,
             std::size_t its_plan) noexcept
      : limit(&from), numbers(its_numbers), id(its_id), plan(its_plan) {}

  const RuleLimit* limit;
  Limit numbers;  // that count for this request
  std::uint32_t id;
  std::size_t plan;  // whose prices count; index of Rule::plans
  std::uint64_t cost = 1;
  std::uint64_t actual = 1;   // to settle to
  bool looks = false;         // it is decided, and nothing is taken: responses are counted
  bool is_blocked = false;    // by an override, for `blocked_for`; absent: for ever
  bool is_unlimited = false;  // by an override: only a block of its key denies
  bool may_be_gone = false;   // to extend: an override was perhaps there before the hold
  std::optional<Duration> blocked_for = {};
  std::size_t key_at = 0, key_end = 0, label_at = 0, label_size = 0;
};

// A rule that matched. Its limits are `first` to `last` of those of the decider.
struct MatchedRule {
  MatchedRule(const Rule& matched, std::size_t its_part, std::size_t first_limit) noexcept
      : rule(&matched), part(its_part), first(first_limit) {}

  const Rule* rule;
  std::size_t part;
  std::size_t first = 0, last = 0;
  std::size_t tag_at = 0, tag_end = 0;  // in the text
  NewKeyLimit* new_keys = nullptr;
  std::size_t plan = 0;  // index of Rule::plans
  bool has_unknown_plan = false;
  // Why a limit of it cannot be decided, so that the rule denies: `on_missing: deny`, or a cost
  // that is no number. It has only that limit then. kDenyRule: the rule has no limits and denies.
  // kOk: all limits can be decided.
  Reason refused = Reason::kOk;

  bool enforced() const noexcept { return rule->mode == RuleMode::kEnforce; }
  bool denies_itself() const noexcept { return refused == Reason::kDenyRule; }
  // Whether the rule decides the request, and not its limits.
  bool decides() const noexcept { return rule->action != RuleAction::kLimit && enforced(); }
  bool denies() const noexcept { return refused != Reason::kOk && enforced(); }
};

// What a decider is asked: a request, its settlement or the report of its response.
struct RuleRequest {
  std::span<const RequestPart> parts;         // each is matched separately
  const std::string_view* domain = nullptr;   // whose rules are tried; null: those of all domains
  const Rule* rule = nullptr;                 // decides alone, whether it matches or not
  const RequestCosts* actual = nullptr;       // to settle to; null: it does not settle
  const AttributeSource* response = nullptr;  // to report; null: it does not report
};

}  // namespace sluice::rules

namespace sluice {

// Returns the rule's name if another limit of the answer has the same name as the limit at
// `index`, or one that spells it. Otherwise returns an empty text. With it, the names of an answer
// are unique.
std::string_view group_of(std::span<const LimitAnswer> limits, std::size_t index) noexcept;

// What a RuleDecider does. It keeps the latest request: its limits, its charges and the answer.
class RuleDecider::Impl {
 public:
  Impl(Limiter& limiter, const RuleStores& stores)
      : store_(&limiter.store()),
        stores_(stores),
        batch_(limiter.store(), stores.shadow, stores.local) {}

  const RuleAnswer& decide(const RuleSet::Impl& set, const rules::RuleRequest& request,
                           const BatchTerms& terms);
  // Decides the request of the latest decide() again, at another time: nothing is matched and no
  // counter is named. Only if can_repeat(), while the rules and what they borrow are the same.
  const RuleAnswer& repeat(Instant now);
  bool can_repeat() const noexcept { return can_repeat_; }
  // Gives back what the latest request has taken, but no permit. decide_shadow() follows.
  void give_back() { batch_.undo(); }
  // Ends the latest request with this decision, and decides the rules in shadow mode, which
  // BatchTerms::leaves_shadow has left. `each`: what was decided at last on the enforced limits, of
  // which those count that deny.
  const RuleAnswer& decide_shadow(const Decision& enforced, const Action& action,
                                  std::span<const Decision> each);
  // `rules` bound the lease of an extension; null: the text does.
  Decision change_permit(Verb verb, const RuleSet* rules, std::string_view permit,
                         std::optional<Instant> now);
  void refuse_permits(bool refuse) noexcept { refuses_permits_ = refuse; }
  // Leaves out limits with permits from now on.
  void leave_permits() noexcept { leaves_permits_ = true; }
  void decide_array(bool is_array) noexcept { values_.read_for_array(is_array); }

 private:
  void begin(const RuleSet::Impl& set, const rules::RuleRequest& request, const BatchTerms& terms);
  bool settles() const noexcept { return request_.actual != nullptr; }

  void match(const RequestCosts& costs, std::size_t part);
  void name_rule(std::size_t index, const RequestCosts& costs, std::size_t part);
  void add_limit(const Rule& rule, const rules::CompiledRule& compiled, std::size_t index);
  Reason name_limit(const rules::CompiledLimit& compiled, const RequestCosts& costs);
  Reason find_costs(const rules::CompiledLimit& compiled, const RequestCosts& costs, bool has_key,
                    rules::NamedLimit& named);
  bool override_limit(rules::NamedLimit& named);
  Reason find_cost(const rules::NamedLimit& of, const rules::CompiledLimit& compiled,
                   const RequestCosts& costs, std::uint64_t& cost);
  bool refuses(const Limit& limit) const noexcept;
  bool applies(const Limit& limit, const rules::CompiledLimit& compiled) const noexcept;
  Reason count_response(const rules::ResponseCount& count, std::uint64_t& cost);
  void explain(const RuleLimit& limit);
  void explain_cost(const RuleLimit& limit);
  void explain_permit(const RuleLimit& limit);
  void explain_name(std::string_view name, std::size_t part);
  void explain_length(const Rule& rule, std::uint32_t attribute);
  void explain_array(const Rule& rule);
  void check_names(const RequestCosts& costs, std::size_t part);
  bool has_limits(std::size_t part) const noexcept;

  bool is_denied_by_rule(RuleMode mode) const noexcept;
  bool has_enforced_budget() const noexcept;
  void keep_refused();

  void add(const rules::MatchedRule& matched, const rules::NamedLimit& named, ChargeTerms& terms);
  bool gives_back(const rules::NamedLimit& named) const noexcept;
  std::uint64_t units_of(const rules::NamedLimit& named) const noexcept;
  const RuleAnswer& answer(const BatchTerms& terms);
  void name_permit(const rules::NamedLimit& named, Charge& charge);
  void fill_batch();
  const RuleAnswer& decide_batch(const BatchTerms& terms);
  void name_limits();
  void fill_limits(const Decision& enforced);
  void drop_unlimited();
  void fill_decision(const Decision& enforced);
  void fill_permit(const Decision& enforced);

  Store* store_;
  RuleStores stores_;
  bool refuses_permits_ = false;
  bool leaves_permits_ = false;

  // The latest request.
  const RuleSet::Impl* set_ = nullptr;
  rules::RuleRequest request_;  // its pointers are valid in decide() only
  Verb verb_ = Verb::kTake;
  std::optional<Instant> now_;
  bool can_repeat_ = false;  // it was a take that the store decided
  bool has_unlimited_ = false;
  bool has_blocked_ = false;
  // The mistake is of the request and not of a limit: no limit has the name of a cost, or a value
  // is too long for the expressions of an enforced rule.
  bool is_invalid_ = false;
  std::string mistake_;                     // what is wrong with the request; empty: nothing
  std::string response_mistake_;            // of the latest response
  rules::CostTemplate::Mistake wrong_ = 0;  // of the latest cost
  rules::AttributeValues values_;
  rules::OverrideNumbers override_numbers_;
  std::string text_;  // of keys and labels
  std::string scratch_;
  std::vector<rules::NamedLimit> limits_;
  std::vector<rules::MatchedRule> matched_;
  std::optional<PermitId> permit_;  // of this request, if it needs one
  std::optional<PermitId> id_;      // of this request, for budgets
  std::string_view id_text_;
  std::vector<Charge> held_;  // its charges
  Batch batch_;
  RuleAnswer answer_;
};

}  // namespace sluice
