// Decides requests by a rule set: finds the rules that match, names their counters, looks up
// overrides and plans, charges all limits in one step, and combines the answers. Shadow rules are
// charged with the others but change no answer.

#include "rules/rule_decider.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>

#include "core/limit.h"
#include "limiter/answer.h"
#include "limiter/waits.h"
#include "rules/counter_key.h"
#include "rules/diagnostics.h"
#include "rules/plans.h"
#include "sluice/decision.h"
#include "sluice/rule.h"

namespace sluice {
namespace {

using rules::MatchedRule;
using rules::NamedLimit;

// Each answer begins as a copy of it and is filled in where it is kept: a copy of an answer that
// was just written member by member would wait for all of these writes.
constexpr LimitAnswer kBlankAnswer{};

// Returns whether that percentage of the limit is used, unless it is 0. A decision without the
// numbers of the limit and a limit that holds nothing are not near.
bool is_near(std::uint8_t percent, const Decision& decision) noexcept {
  if (percent == 0 || decision.capacity == 0 || !has_numbers(decision)) return false;
  constexpr std::uint64_t kAll = 100;
  return decision.remaining * kAll <= (kAll - percent) * decision.capacity;
}

// The cost of a limit without `cost`.
std::uint64_t unset_cost(const RequestCosts& costs) noexcept {
  return costs.only_if_wanted ? 1 : costs.units;
}

// Returns a budget with another number of units. With 0 it answers for the ids that it knows.
Limit with_units(const Limit& limit, std::uint64_t units) noexcept {
  LimitSpec spec = core::spec_of(limit);
  spec.limit = units;
  const auto made = Limit::make(spec);
  return made ? *made : limit;
}

// Returns the longest lease that the limit of this counter has. Absent: there is no such limit, so
// no request is decided by the counter.
std::optional<Duration> longest_lease(const RuleSet& rules, const Overrides* overrides,
                                      std::string_view counter, std::optional<Instant> now) {
  const auto key = rules::parse_counter_key(counter);
  const Rule* const rule = key ? rules.find(key->rule) : nullptr;
  if (rule == nullptr || rule->domain != key->domain) return std::nullopt;
  const auto limit = std::ranges::find(rule->limits, key->limit, &RuleLimit::name);
  if (limit == rule->limits.end()) return std::nullopt;
  Duration longest = limit->limit.period();
  for (const Limit& numbers : limit->by_plan) longest = std::max(longest, numbers.period());
  const auto given = overrides != nullptr ? overrides->find(counter, now) : std::nullopt;
  if (!given) return longest;
  return std::max(longest, rules::numbers_with(*given, *rule, *limit, limit->limit).period());
}

}  // namespace

// A request is decided in four steps: match the rules and name their counters, fill in the batch of
// charges, decide it, and answer.
const RuleAnswer& RuleDecider::Impl::decide(const RuleSet::Impl& set,
                                            const rules::RuleRequest& request,
                                            const BatchTerms& terms) {
  begin(set, request, terms);
  const std::less<const Rule*> before;
  const Rule* const first = set.rules.data();
  if (request.rule != nullptr &&
      (before(request.rule, first) || !before(request.rule, first + set.rules.size()))) {
    answer_.decision = Decision::refused(Reason::kInvalid);
    return answer_;
  }
  for (std::size_t part = 0; part < request.parts.size(); ++part) {
    const RequestCosts& costs = request.parts[part].costs;
    values_.begin(set.attributes, *request.parts[part].attributes, part);
    if (request.rule != nullptr) {
      name_rule(static_cast<std::size_t>(request.rule - first), costs, part);
    } else {
      match(costs, part);
    }
    check_names(costs, part);
    if (settles()) check_names(*request.actual, part);
  }
  return answer(terms);
}

void RuleDecider::Impl::begin(const RuleSet::Impl& set, const rules::RuleRequest& request,
                              const BatchTerms& terms) {
  set_ = &set;
  request_ = request;
  verb_ = terms.action.verb;
  now_ = terms.now;
  can_repeat_ = false;
  is_invalid_ = false;
  mistake_.clear();
  response_mistake_.clear();
  text_.clear();
  limits_.clear();
  matched_.clear();
  permit_.reset();
  id_.reset();
  if (!request.parts.empty() && request.parts.front().costs.id != nullptr) {
    id_ = *request.parts.front().costs.id;
    id_text_ = request.parts.front().costs.id_text;
  }
  batch_.clear();
  answer_.permit.clear();
  answer_.mistake = {};
  answer_.decision = Decision{};
  answer_.rule = nullptr;
  answer_.limits.clear();
  answer_.matched.clear();
  answer_.skipped.clear();
}

// Step 1: match the rules and name their counters.

void RuleDecider::Impl::match(const RequestCosts& costs, std::size_t part) {
  for (std::size_t i = 0; i < set_->rules.size(); ++i) {
    const Rule& rule = set_->rules[i];
    if (request_.domain != nullptr && rule.domain != *request_.domain) continue;
    values_.read_for_shadow(rule.mode != RuleMode::kEnforce);
    if (!set_->compiled[i].matches(values_)) {
      const auto too_much = values_.take_too_much();
      if (!too_much || rule.mode != RuleMode::kEnforce) continue;
      return values_.is_too_much_of_array() ? explain_array(rule) : explain_length(rule, *too_much);
    }
    name_rule(i, costs, part);
    if (!rules::lets_others_match(rule)) break;
  }
}

// Checks that the costs name limits of the rules that match the part, if any rule does.
void RuleDecider::Impl::check_names(const RequestCosts& costs, std::size_t part) {
  if (is_invalid_ || !has_limits(part)) return;
  for (const LimitCost& cost : costs.limits) {
    const bool known = std::ranges::any_of(matched_, [&](const auto& matched) {
      const std::vector<RuleLimit>& limits = matched.rule->limits;
      return matched.part == part &&
             std::ranges::find(limits, cost.limit, &RuleLimit::name) != limits.end();
    });
    if (!known) return explain_name(cost.limit, part);
  }
}

// Whether limits of rules decide the part, and not a rule with an action.
bool RuleDecider::Impl::has_limits(std::size_t part) const noexcept {
  bool has_limits = false;
  for (const MatchedRule& matched : matched_) {
    if (matched.part != part) continue;
    if (matched.decides()) return false;
    has_limits |= !matched.rule->limits.empty();
  }
  return has_limits;
}

// Says that no limit has the name, and which names the rules of the part have.
void RuleDecider::Impl::explain_name(std::string_view name, std::size_t part) {
  is_invalid_ = true;
  std::vector<std::string_view> known;
  for (const MatchedRule& matched : matched_) {
    if (matched.part != part) continue;
    for (const RuleLimit& limit : matched.rule->limits) known.push_back(limit.name);
  }
  mistake_ = "the rules that apply have no limit " + rules::in_quotes(name) +
             "; expected the name of a limit: " + rules::either(known);
}

void RuleDecider::Impl::explain_length(const Rule& rule, std::uint32_t attribute) {
  is_invalid_ = true;
  mistake_ = "the attribute " + rules::in_quotes(set_->attributes.names()[attribute]) + " has " +
             std::to_string(values_.get(attribute)->size()) +
             " bytes, too many for the expressions up to the rule " + rules::in_quotes(rule.name) +
             "; expected at most " + std::to_string(rules::AttributeValues::kLong) +
             " bytes, or that all expressions together read at most " +
             std::to_string(rules::AttributeValues::kMostLongBytes) + " bytes of longer values";
}

void RuleDecider::Impl::explain_array(const Rule& rule) {
  is_invalid_ = true;
  mistake_ = "the array is too much for the expressions up to the rule " +
             rules::in_quotes(rule.name) +
             "; expected that for all its requests they read at most " +
             std::to_string(rules::AttributeValues::kMostLongBytes) +
             " bytes of values of more than " + std::to_string(rules::AttributeValues::kLong) +
             " bytes, and at most " + std::to_string(rules::AttributeValues::kMostArrayBytes) +
             " bytes of all values, where each expression counts " +
             std::to_string(rules::AttributeValues::kEachRead) + " more for each value";
}

void RuleDecider::Impl::name_rule(std::size_t index, const RequestCosts& costs, std::size_t part) {
  const Rule& rule = set_->rules[index];
  const rules::CompiledRule& compiled = set_->compiled[index];
  MatchedRule& matched = matched_.emplace_back(rule, part, limits_.size());
  matched.new_keys = compiled.new_keys.get();
  if (rule.action == RuleAction::kDeny && asks(verb_)) matched.refused = Reason::kDenyRule;
  if (!rule.plans.empty()) {
    std::tie(matched.plan, matched.has_unknown_plan) = compiled.choose_plan(rule, values_);
  }
  bool has_first = true;  // of budgets in a row
  for (std::size_t i = 0; i < rule.limits.size(); ++i) {
    const bool is_alternative = rule.limits[i].alternative;
    if (is_alternative && (!has_first || verb_ == Verb::kTakeAtMost)) continue;
    if (compiled.limits[i].removed && (!id_ || !may_have_id(verb_))) continue;
    const std::size_t before = limits_.size();
    add_limit(rule, compiled, i);
    const Reason refused = name_limit(compiled.limits[i], costs);
    if (!is_alternative) has_first = limits_.size() > before;
    if (is_alternative && limits_.size() > before) {
      limits_.back().may_be_gone = limits_[before - 1].may_be_gone;
    }
    if (refused == Reason::kOk) continue;
    matched.refused = refused;
    if (refused == Reason::kInvalid && matched.enforced() && mistake_.empty()) {
      explain(rule.limits[i]);
    }
    limits_.erase(limits_.begin() + static_cast<std::ptrdiff_t>(matched.first), limits_.end());
    add_limit(rule, compiled, i);
    break;
  }
  matched.last = limits_.size();
  matched.tag_at = text_.size();
  compiled.tag.fill_tag(values_, text_);
  matched.tag_end = text_.size();
}

// Adds a limit of the latest rule, with the numbers of its plan.
void RuleDecider::Impl::add_limit(const Rule& rule, const rules::CompiledRule& compiled,
                                  std::size_t index) {
  const RuleLimit& limit = rule.limits[index];
  const bool has_plans = !limit.by_plan.empty();
  const Limit& numbers = has_plans ? limit.by_plan[matched_.back().plan] : limit.limit;
  limits_.emplace_back(limit, numbers, compiled.limits[index].id, matched_.back().plan);
}

// Fills in the cost and the key of the latest limit, or drops it. Returns the reason if the limit
// denies for that, else kOk.
Reason RuleDecider::Impl::name_limit(const rules::CompiledLimit& compiled,
                                     const RequestCosts& costs) {
  NamedLimit& named = limits_.back();
  const RuleLimit& limit = *named.limit;
  const bool is_left = leaves_permits_ && holds_permits(limit.limit.algorithm());
  if (is_left || !applies(limit.limit, compiled) || (changes_block(verb_) && !limit.block)) {
    limits_.pop_back();
    return Reason::kOk;
  }
  named.looks = compiled.count && takes(verb_);
  named.key_at = text_.size();
  text_.append(compiled.prefix);
  const auto label = compiled.key.fill(values_, text_, named.key_end, scratch_);
  if (label) {
    named.label_at = *label;
    named.label_size = text_.size() - *label;
    if (stores_.overrides != nullptr && override_limit(named)) return Reason::kOk;
    if (compiled.removed && asks(verb_)) named.numbers = with_units(named.numbers, 0);
  }
  const Reason wrong = find_costs(compiled, costs, label.has_value(), named);
  if (wrong == Reason::kOk) return Reason::kOk;
  text_.resize(named.key_at);
  limits_.pop_back();
  if (wrong != Reason::kMissing || limit.on_missing != OnMissing::kSkip) return wrong;
  answer_.skipped.push_back({matched_.back().rule, &limit, matched_.back().part});
  return Reason::kOk;
}

// Gives the limit the numbers or the block of an override. Returns whether that decides the limit
// already: only the block of its key applies, or nothing and it is dropped. A hold can be older
// than an override, so it ends even if its key is unlimited now, and is extended if there is one.
bool RuleDecider::Impl::override_limit(NamedLimit& named) {
  using Kind = Override::Kind;
  const bool is_alternative = named.limit->alternative;
  const std::string_view key =
      std::string_view(text_).substr(named.key_at, named.key_end - named.key_at);
  const auto given = stores_.overrides->find(key, now_);
  if (!given) return false;
  if (given->kind == Kind::kUnlimited && is_alternative) {
    named.numbers = with_units(named.numbers, kMaxAmount);
    return false;
  }
  if (given->kind == Kind::kUnlimited) {
    const bool ends_hold = verb_ == Verb::kSettle || verb_ == Verb::kCancel;
    if (ends_hold || (named.limit->block && (changes_block(verb_) || verb_ == Verb::kReset))) {
      return false;
    }
    named.may_be_gone = verb_ == Verb::kExtend && matched_.back().enforced();
    if (named.may_be_gone) return false;
    named.is_unlimited = named.limit->block && asks(verb_);
    named.looks = false;
    if (named.is_unlimited) return true;
    text_.resize(named.key_at);
    limits_.pop_back();
    return true;
  }
  const Rule& rule = *matched_.back().rule;
  named.numbers = override_numbers_.with(*given, rule, *named.limit, named.numbers);
  if (given->kind == Kind::kPlan) {
    named.plan = rules::find_plan(rule, given->plan).value_or(named.plan);
  }
  if (given->kind != Kind::kBlocked || !asks(verb_)) return false;
  if (is_alternative && id_ && may_have_id(verb_)) {  // it answers for the ids that it knows
    named.numbers = with_units(named.numbers, 0);
    return false;
  }
  if (is_alternative) {  // as if it were not there
    text_.resize(named.key_at);
    limits_.pop_back();
    return true;
  }
  const Instant now = now_ ? *now_ : SystemClock().now();
  if (given->until) named.blocked_for = std::max(*given->until - now, Duration{1});
  named.is_blocked = true;
  return false;
}

Reason RuleDecider::Impl::find_costs(const rules::CompiledLimit& compiled,
                                     const RequestCosts& costs, bool has_key, NamedLimit& named) {
  Reason wrong = has_key ? Reason::kOk : Reason::kMissing;
  const bool is_about_id = verb_ == Verb::kSettle || verb_ == Verb::kCancel;
  if (compiled.cost.kind() == rules::CostTemplate::Kind::kUnset && costs.limits.empty() &&
      !is_about_id && !named.limit->alternative) {
    named.cost = unset_cost(costs);
  } else if (has_key) {
    wrong = find_cost(named, compiled, costs, named.cost);
  }
  if (wrong == Reason::kOk && request_.actual != nullptr) {
    wrong = find_cost(named, compiled, *request_.actual, named.actual);
  }
  if (wrong == Reason::kOk && request_.response != nullptr) {
    wrong = count_response(*compiled.count, named.cost);
  }
  if (named.looks && verb_ == Verb::kTakeAtMost)
    named.cost = std::min<std::uint64_t>(named.cost, 1);
  if (wrong == Reason::kOk && refuses(named.numbers)) wrong = Reason::kInvalid;
  return wrong;
}

// What is about an id is for budgets alone: what other limits took under it is not known.
// Limits with `count` are charged by reports alone, which charge no other limits. A request has
// taken nothing from them, so that there is nothing to give back or to settle.
bool RuleDecider::Impl::applies(const Limit& limit,
                                const rules::CompiledLimit& compiled) const noexcept {
  if (needs_id(verb_) && verb_ != Verb::kHold && !holds_amounts(limit.algorithm())) return false;
  if (request_.response != nullptr) return compiled.count.has_value();
  return !compiled.count || takes(verb_) || verb_ == Verb::kPeek || verb_ == Verb::kReset ||
         changes_block(verb_);
}

// Changes the cost of the request to that of its response.
Reason RuleDecider::Impl::count_response(const rules::ResponseCount& count, std::uint64_t& cost) {
  auto units = count.units(*request_.response, cost);
  if (units) {
    cost = *units;
    return Reason::kOk;
  }
  response_mistake_ = std::move(units.error());
  return Reason::kInvalid;
}

// Whether the verb is not for a limit with permits, or nobody would receive the permit.
bool RuleDecider::Impl::refuses(const Limit& limit) const noexcept {
  if (!holds_permits(limit.algorithm())) return false;
  if (verb_ == Verb::kCharge) return request_.actual == nullptr;
  return takes(verb_) && refuses_permits_;
}

// Sets the cost. Returns kMissing if its attribute is missing, kInvalid if that is no number of
// units, else kOk.
Reason RuleDecider::Impl::find_cost(const NamedLimit& of, const rules::CompiledLimit& compiled,
                                    const RequestCosts& costs, std::uint64_t& found_cost) {
  const RuleLimit& limit = *of.limit;
  using Kind = rules::CostTemplate::Kind;
  const Kind kind = compiled.cost.kind();
  const bool is_of_first = !asks(verb_) && !id_;  // what does not say which one of a row
  for (const RuleLimit* named = &limit;; --named) {
    for (const LimitCost& cost : costs.limits) {
      if (cost.limit != named->name) continue;
      found_cost = cost.units;
      return Reason::kOk;
    }
    if (!named->alternative) break;
    if (!is_of_first) continue;
    found_cost = 0;
    return Reason::kOk;
  }
  // Who calls with parts and an id knows the amount, whatever the cost is read from; so does who
  // calls with a part of no units, which only looks.
  const bool is_amount =
      costs.id != nullptr ? holds_amounts(limit.limit.algorithm()) : costs.units == 0;
  if (request_.domain != nullptr && is_amount) {
    found_cost = costs.units;
    return Reason::kOk;
  }
  // With what was used, whatever the cost is read from.
  if (verb_ == Verb::kSettle || verb_ == Verb::kCancel) {
    found_cost = costs.units;
    if (costs.units != RequestCosts::kNoUnits) return Reason::kOk;
    response_mistake_ = "the settlement has no amount for the limit " +
                        rules::in_quotes(limit.name) + "; expected it in 'actual'";
    return Reason::kInvalid;
  }
  if (kind != Kind::kComputed) {
    found_cost = kind == Kind::kUnits     ? *compiled.cost.units()
                 : kind == Kind::kRequest ? costs.units
                                          : unset_cost(costs);
    return Reason::kOk;
  }
  if (verb_ == Verb::kReset || verb_ == Verb::kExtend) return Reason::kOk;
  const auto found = compiled.cost.find(values_, compiled.price, of.plan, most_cost(limit.limit));
  if (!found) {
    wrong_ = found.error();
    return Reason::kInvalid;
  }
  found_cost = found->value_or(1);
  return *found ? Reason::kOk : Reason::kMissing;
}

// Says why the limit cannot be decided.
void RuleDecider::Impl::explain(const RuleLimit& limit) {
  if (refuses(limit.limit)) return explain_permit(limit);
  if (response_mistake_.empty()) return explain_cost(limit);
  mistake_ = std::move(response_mistake_);
}

// Says why the limit has no cost.
void RuleDecider::Impl::explain_cost(const RuleLimit& limit) {
  using rules::CostTemplate;
  const bool is_one = limit.cost.starts_with('{') && limit.cost.find('}') + 1 == limit.cost.size();
  const std::uint64_t most = most_cost(limit.limit);
  mistake_ = "the cost of the limit " + rules::in_quotes(limit.name);
  if (wrong_ == CostTemplate::kTooLarge) {
    mistake_ += ", " + limit.cost + ", is too large; expected at most " + std::to_string(most);
  } else if (wrong_ == CostTemplate::kNoPrice) {
    mistake_ +=
        " reads the prices of a model that has none; expected a model of 'prices', or a "
        "default";
  } else {
    mistake_ += ", " + rules::in_quotes(set_->attributes.names()[wrong_]) + ", is " +
                rules::in_quotes(*values_.get(wrong_)) + "; expected a whole number from 0 to " +
                std::to_string(is_one ? most : kMaxAmount);
  }
}

void RuleDecider::Impl::explain_permit(const RuleLimit& limit) {
  mistake_ = "the limit " + rules::in_quotes(limit.name) + " holds permits (concurrency), ";
  mistake_ += verb_ == Verb::kCharge
                  ? "which cannot be charged; expected a check"
                  : "which this kind of request cannot receive; expected /v1/check, RL.CHECK or "
                    "the library";
}

bool RuleDecider::Impl::is_denied_by_rule(RuleMode mode) const noexcept {
  return std::ranges::any_of(matched_, [&](const MatchedRule& matched) {
    return matched.denies_itself() && matched.rule->mode == mode;
  });
}

// An enforced rule denies itself, or because a limit cannot be decided. The other limits do not
// matter then.
void RuleDecider::Impl::keep_refused() {
  std::size_t kept = 0;
  for (MatchedRule& matched : matched_) {
    const std::size_t first = kept;
    for (std::size_t i = matched.first; i < matched.last && matched.denies(); ++i) {
      limits_[kept++] = limits_[i];
    }
    matched.first = first;
    matched.last = kept;
  }
  limits_.erase(limits_.begin() + static_cast<std::ptrdiff_t>(kept), limits_.end());
}

// Steps 2 and 3: fill in the batch of charges, and decide it.

const RuleAnswer& RuleDecider::Impl::answer(const BatchTerms& terms) {
  if (is_invalid_) {
    answer_.decision = Decision::refused(Reason::kInvalid);
    if (!matched_.empty()) answer_.rule = matched_.front().rule;
    answer_.mistake = mistake_;
    return answer_;
  }
  if (matched_.empty()) return answer_;
  if (std::ranges::any_of(matched_, [](const auto& rule) { return rule.denies(); })) {
    keep_refused();
  }
  fill_batch();
  name_limits();
  decide_batch(terms);
  can_repeat_ =
      verb_ == Verb::kTake && !settles() && !permit_ && !id_ && !has_unlimited_ && !has_blocked_ &&
      std::ranges::none_of(matched_, [](const auto& rule) { return rule.refused != Reason::kOk; });
  return answer_;
}

const RuleAnswer& RuleDecider::Impl::repeat(Instant now) {
  answer_.mistake = {};
  batch_.reset_answers();
  return decide_batch({verb_, now});
}

const RuleAnswer& RuleDecider::Impl::decide_shadow(const Decision& enforced, const Action& action,
                                                   std::span<const Decision> each) {
  const Duration waited = answer_.decision.delay.value_or(Duration{0});
  answer_.decision = enforced;
  if (matched_.empty() || is_invalid_) return answer_;
  if (enforced.reason != Reason::kInvalid) batch_.decide_shadow(action);
  answer_.limits.clear();
  answer_.matched.clear();
  name_limits();
  fill_limits(enforced);
  for (LimitAnswer& limit : answer_.limits) {
    const bool is_enforced = limit.rule->mode == RuleMode::kEnforce;
    if (enforced.allowed() && is_enforced) limit.decision = detail::after(limit.decision, waited);
  }
  answer_.permit.clear();
  fill_permit(enforced);
  if (has_unlimited_) drop_unlimited();
  auto one = each.begin();
  for (LimitAnswer& limit : answer_.limits) {
    if (limit.rule->mode == RuleMode::kShadow || one == each.end()) continue;
    const Decision& said = *one++;
    if (said.allowed()) continue;
    if (limit.decision.allowed() && verb_ != Verb::kPeek) {  // the numbers after give_back() count
      limit.decision.outcome = said.outcome;
      limit.decision.reason = said.reason;
      limit.decision.retry_after = said.retry_after;
    } else {
      limit.decision = said;
    }
    for (RuleAnswer::Matched& rule : answer_.matched) rule.denied |= rule.rule == limit.rule;
  }
  fill_decision(enforced);
  return answer_;
}

const RuleAnswer& RuleDecider::Impl::decide_batch(const BatchTerms& terms) {
  Decision enforced = batch_.decide(terms);
  if (is_denied_by_rule(RuleMode::kEnforce)) {
    enforced = Decision::refused(Reason::kDenyRule);
  }
  fill_limits(enforced);
  fill_decision(enforced);
  fill_permit(enforced);
  if (has_unlimited_) drop_unlimited();
  return answer_;
}

// A settlement charges what the actual cost is more than the reserved one, and gives back what it
// is less. Permits stay as they are.
bool RuleDecider::Impl::gives_back(const NamedLimit& named) const noexcept {
  return settles() && (named.actual < named.cost || holds_permits(named.numbers.algorithm()));
}

std::uint64_t RuleDecider::Impl::units_of(const NamedLimit& named) const noexcept {
  if (!settles()) return named.cost;
  if (holds_permits(named.numbers.algorithm())) return 0;
  return named.actual < named.cost ? named.cost - named.actual : named.actual - named.cost;
}

// A take of a limit with permits names the permit of the request; a budget its id, unless only
// reports charge it.
void RuleDecider::Impl::name_permit(const NamedLimit& named, Charge& charge) {
  if (holds_amounts(charge.limit.algorithm())) {
    if (!id_ || !may_have_id(verb_) || (named.looks && !needs_id(verb_))) return;
    charge.permit = &*id_;
    charge.id_text = id_text_;
    return;
  }
  if (!takes(verb_) || !holds_permits(charge.limit.algorithm())) return;
  if (!permit_) permit_ = PermitId::random();
  charge.permit = &*permit_;
}

void RuleDecider::Impl::fill_batch() {
  ChargeTerms terms;
  has_unlimited_ = has_blocked_ = false;
  for (const MatchedRule& matched : matched_) {
    terms.on_store_error = matched.rule->on_store_error;
    ++terms.group;
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      terms.mode = matched.enforced() ? ChargeMode::kEnforced : ChargeMode::kShadow;
      terms.looks = terms.only_block = terms.may_be_gone = false;
      add(matched, limits_[i], terms);
    }
  }
}

void RuleDecider::Impl::add(const MatchedRule& matched, const NamedLimit& named,
                            ChargeTerms& terms) {
  if (matched.refused != Reason::kOk) {
    return batch_.add_refused(named.numbers, terms, matched.refused);
  }
  terms.looks = named.looks;
  terms.only_block = named.is_unlimited;
  terms.may_be_gone = named.may_be_gone;
  has_unlimited_ |= named.is_unlimited || named.may_be_gone;
  has_blocked_ |= named.is_blocked;
  const std::string_view text = std::string_view(text_);
  Charge& charge = batch_.add(terms);
  charge.key = text.substr(named.key_at, named.key_end - named.key_at);
  charge.limit = named.numbers;
  charge.cost = named.cost;
  charge.tag = text.substr(matched.tag_at, matched.tag_end - matched.tag_at);
  charge.rule.keyspace = Keyspace::kRules;
  charge.rule.limit_id = named.id;
  charge.rule.new_keys = matched.new_keys;
  charge.alternative = named.limit->alternative;
  charge.block = named.limit->block_of_charges();
  if (named.is_blocked) batch_.block(named.blocked_for);
  if (named.is_unlimited) return;
  charge.cost = units_of(named);
  charge.gives_back = gives_back(named);
  name_permit(named, charge);
}

// Step 4: answer.

// Fills in what does not depend on the decision.
void RuleDecider::Impl::name_limits() {
  const std::string_view text = text_;
  for (const MatchedRule& matched : matched_) {
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      const NamedLimit& named = limits_[i];
      const Charge& charge = batch_.charge(i);
      answer_.limits.push_back(kBlankAnswer);
      LimitAnswer& limit = answer_.limits.back();
      limit.rule = matched.rule;
      limit.limit = named.limit;
      limit.counter = charge.key;
      limit.label = text.substr(named.label_at, named.label_size);
      limit.tag = charge.tag;
      limit.part = matched.part;
      limit.numbers = named.numbers;
    }
    answer_.matched.push_back(
        {matched.rule, false, matched.plan, matched.has_unknown_plan, matched.part});
  }
}

void RuleDecider::Impl::fill_limits(const Decision& enforced) {
  for (std::size_t rule = 0; rule < matched_.size(); ++rule) {
    const MatchedRule& matched = matched_[rule];
    bool denied = matched.denies_itself();
    bool degraded = false;
    for (std::size_t i = matched.first; i < matched.last; ++i) {
      LimitAnswer& limit = answer_.limits[i];
      limit.decision = batch_.decision(i);
      limit.lacks_counter = batch_.lacks_counter(i);
      limit.cost = batch_.charge(i).cost;
      denied |= !limit.decision.allowed();
      // A budget that is there for another one is not near before it is needed.
      if (limit.limit->alternative && limit.decision.passed_over) continue;
      limit.near = is_near(limit.limit->warn_percent, limit.decision);
      degraded |= is_near(matched.rule->degrade.at_percent, limit.decision);
    }
    answer_.matched[rule].degraded = degraded && matched.enforced() && enforced.allowed();
    answer_.matched[rule].denied = denied;
  }
}

// A limit does not apply to a key that is unlimited and not blocked, and has no hold to extend.
void RuleDecider::Impl::drop_unlimited() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < answer_.limits.size(); ++i) {
    const NamedLimit& named = limits_[i];
    const bool applies = named.may_be_gone
                             ? !batch_.is_left_out(i)
                             : !named.is_unlimited || !answer_.limits[i].decision.allowed();
    if (applies) answer_.limits[kept++] = answer_.limits[i];
  }
  answer_.limits.erase(answer_.limits.begin() + static_cast<std::ptrdiff_t>(kept),
                       answer_.limits.end());
}

// Whether an enforced rule says what has become of the id of the request.
bool RuleDecider::Impl::has_enforced_budget() const noexcept {
  return std::ranges::any_of(matched_, [&](const MatchedRule& matched) {
    if (!matched.enforced()) return false;
    const auto own = std::span(limits_).subspan(matched.first, matched.last - matched.first);
    return std::ranges::any_of(
        own, [](const NamedLimit& named) { return holds_amounts(named.numbers.algorithm()); });
  });
}

// A shadow rule changes the answer only if the enforced rules allow. Its numbers are reported if no
// enforced rule has any, and what it says about an id if no enforced rule has a budget.
void RuleDecider::Impl::fill_decision(const Decision& enforced) {
  const std::optional<Decision>& shadow = batch_.shadow();
  const bool shadow_denies = enforced.allowed() && (is_denied_by_rule(RuleMode::kShadow) ||
                                                    (shadow && !shadow->allowed()));
  answer_.decision = enforced;
  if (shadow && enforced == Decision{}) {
    answer_.decision = {.capacity = shadow->capacity,
                        .remaining = shadow->remaining,
                        .reset_after = shadow->reset_after};
  }
  if (shadow && id_ && enforced.allowed() && !has_enforced_budget()) {
    answer_.decision.repeated = shadow->repeated;
    answer_.decision.late = shadow->late;
    answer_.decision.ends_after = shadow->ends_after;
  }
  const bool is_plain = enforced.reason == Reason::kOk || enforced.reason == Reason::kLease;
  if (shadow_denies && is_plain) answer_.decision.reason = Reason::kShadow;
  const auto& matched_rules = matched_;
  const auto deciding =
      std::ranges::find_if(matched_rules, [](const MatchedRule& rule) { return rule.decides(); });
  answer_.rule = (deciding != matched_rules.end() ? *deciding : matched_rules.front()).rule;
  if (enforced.reason == Reason::kInvalid) answer_.mistake = mistake_;
  if (enforced.allowed() && !shadow_denies) return;
  const RuleMode decisive = enforced.allowed() ? RuleMode::kShadow : RuleMode::kEnforce;
  for (const RuleAnswer::Matched& matched : answer_.matched) {
    if (!matched.denied || matched.rule->mode != decisive) continue;
    const bool denies_itself = matched.rule->action == RuleAction::kDeny;
    if (enforced.reason == Reason::kDenyRule && !denies_itself) continue;
    answer_.rule = matched.rule;
    return;
  }
}

// Names the counters in which the request has units. If the request is denied, rules in shadow mode
// give theirs back.
void RuleDecider::Impl::fill_permit(const Decision& enforced) {
  if (!permit_) return;
  held_.clear();
  for (const MatchedRule& matched : matched_) {
    bool is_taken = enforced.allowed();
    for (std::size_t i = matched.first; !matched.enforced() && i < matched.last; ++i) {
      is_taken = (i == matched.first || is_taken) && batch_.decision(i).allowed();
    }
    for (std::size_t i = matched.first; is_taken && i < matched.last; ++i) {
      // A permit that a failure policy has answered for is not in a store.
      const bool is_held = batch_.decision(i).reset_after > Duration{0};
      const Charge& charge = batch_.charge(i);
      if (is_held && detail::HeldPermit::belongs(charge) && held_.size() < kMaxCharges) {
        held_.push_back(charge);
      }
    }
  }
  if (enforced.allowed()) return PermitText::append(*permit_, held_, answer_.permit);
  for (const Charge& charge : held_) {
    (stores_.shadow != nullptr ? stores_.shadow : store_)->apply_one(Verb::kRelease, charge, {});
  }
}

Decision RuleDecider::Impl::change_permit(Verb verb, const RuleSet* rules, std::string_view permit,
                                          std::optional<Instant> now) {
  const auto parsed = PermitText::parse(permit);
  if (!parsed) return Decision::refused(Reason::kInvalid);
  std::vector<Charge> charges(parsed->charges().begin(), parsed->charges().end());
  for (Charge& charge : charges) {
    if (rules == nullptr || charge.rule.keyspace != Keyspace::kRules) continue;
    const auto most = longest_lease(*rules, stores_.overrides, charge.key, now);
    if (!most || charge.limit.period() <= *most) continue;
    charge.limit =
        Limit::make(
            {.algorithm = Algorithm::kConcurrency, .limit = charge.limit.limit(), .per = *most})
            .value();
  }
  std::vector<Decision> each(charges.size());
  const auto change = [&](Store& store) {
    return verb == Verb::kRelease ? parsed->release(store, now)
                                  : store.apply(verb, charges, now, each);
  };
  const Decision said = change(*store_);
  if (stores_.local == nullptr) return said;
  const Decision local = change(*stores_.local);
  return said.allowed() || !local.allowed() ? said : local;
}

RuleDecider::RuleDecider(Limiter& limiter, const RuleStores& stores)
    : impl_(std::make_unique<Impl>(limiter, stores)) {}
RuleDecider::~RuleDecider() = default;
RuleDecider::RuleDecider(RuleDecider&&) noexcept = default;
RuleDecider& RuleDecider::operator=(RuleDecider&&) noexcept = default;

const RuleAnswer& RuleDecider::decide(const RuleSet& rules, const AttributeSource& attributes,
                                      const RequestCosts& costs, std::optional<Instant> now,
                                      Action action, const Rule* rule) {
  const RequestPart part{&attributes, costs};
  return impl_->decide(rules.impl(), {.parts = {&part, 1}, .rule = rule}, {action, now});
}

const RuleAnswer& RuleDecider::decide_parts(const RuleSet& rules, std::string_view domain,
                                            std::span<const RequestPart> parts,
                                            std::optional<Instant> now, Action action) {
  return impl_->decide(rules.impl(), {.parts = parts, .domain = &domain}, {action, now});
}

const RuleAnswer& RuleDecider::settle(const RuleSet& rules, const AttributeSource& attributes,
                                      const RequestCosts& reserved, const RequestCosts& actual,
                                      std::optional<Instant> now, const Rule* rule) {
  const RequestPart part{&attributes, reserved};
  return impl_->decide(rules.impl(), {.parts = {&part, 1}, .rule = rule, .actual = &actual},
                       {Verb::kCharge, now});
}

const RuleAnswer& RuleDecider::report(const RuleSet& rules, const AttributeSource& attributes,
                                      const AttributeSource& response, const RequestCosts& costs,
                                      std::optional<Instant> now, const Rule* rule) {
  const RequestPart part{&attributes, costs};
  return impl_->decide(rules.impl(), {.parts = {&part, 1}, .rule = rule, .response = &response},
                       {Verb::kCharge, now});
}

Decision RuleDecider::release(std::string_view permit, std::optional<Instant> now) {
  return impl_->change_permit(Verb::kRelease, nullptr, permit, now);
}

Decision RuleDecider::extend(const RuleSet& rules, std::string_view permit,
                             std::optional<Instant> now) {
  return impl_->change_permit(Verb::kExtend, &rules, permit, now);
}

void RuleDecider::refuse_permits(bool refuse) noexcept { impl_->refuse_permits(refuse); }
void RuleDecider::decide_array(bool is_array) noexcept { impl_->decide_array(is_array); }

}  // namespace sluice
