#include "rules/named_limits.h"

#include <algorithm>
#include <tuple>

#include "rules/diagnostics.h"
#include "rules/source_text.h"

namespace sluice::rules {
namespace {

// The cost of a limit without `cost`.
std::uint64_t unset_cost(const RequestCosts& costs) noexcept {
  return costs.only_if_wanted ? 1 : costs.units;
}

}  // namespace

void NamedLimits::begin(const RuleSet::Impl& set, const NamingTerms& terms) {
  set_ = &set;
  terms_ = terms;
  mistake_.clear();
  response_mistake_.clear();
  is_invalid_ = false;
  text_.clear();
  limits_.clear();
  matched_.clear();
}

void NamedLimits::add(std::size_t rule, const AttributeSource& attributes,
                      const RequestCosts& costs) {
  values_.begin(set_->attributes, attributes);
  name_rule(set_->rules[rule], set_->compiled[rule], costs, 0);
  check_names(costs, 0);
  if (terms_.actual != nullptr) check_names(*terms_.actual, 0);
}

// Tries the rules of one domain, or all rules if `domain` is null.
void NamedLimits::match(const std::string_view* domain, const AttributeSource& attributes,
                        const RequestCosts& costs, std::size_t part) {
  values_.begin(set_->attributes, attributes, part);
  for (std::size_t i = 0; i < set_->rules.size(); ++i) {
    const Rule& rule = set_->rules[i];
    if (domain != nullptr && rule.domain != *domain) continue;
    values_.read_for_shadow(rule.mode != RuleMode::kEnforce);
    if (!set_->compiled[i].matches(values_)) {
      const auto too_long = values_.take_too_long();
      if (!too_long || rule.mode != RuleMode::kEnforce) continue;
      return explain_length(rule, *too_long);
    }
    name_rule(rule, set_->compiled[i], costs, part);
    if (!lets_others_match(rule)) break;
  }
  check_names(costs, part);
  if (terms_.actual != nullptr) check_names(*terms_.actual, part);
}

// Checks that the costs name limits of the rules that match the part, if any rule does.
void NamedLimits::check_names(const RequestCosts& costs, std::size_t part) {
  if (is_invalid_ || !has_limits(part)) return;
  for (const LimitCost& cost : costs.limits) {
    const bool known = std::any_of(matched_.begin(), matched_.end(), [&](const auto& matched) {
      const std::vector<RuleLimit>& limits = matched.rule->limits;
      return matched.part == part &&
             std::any_of(limits.begin(), limits.end(),
                         [&](const RuleLimit& limit) { return limit.name == cost.limit; });
    });
    if (!known) return explain_name(cost.limit, part);
  }
}

// Whether limits of rules decide the part, and not a rule with an action.
bool NamedLimits::has_limits(std::size_t part) const noexcept {
  bool has_limits = false;
  for (const MatchedRule& matched : matched_) {
    if (matched.part != part) continue;
    if (matched.decides()) return false;
    has_limits |= !matched.rule->limits.empty();
  }
  return has_limits;
}

// Says that no limit has the name, and which names the rules of the part have.
void NamedLimits::explain_name(std::string_view name, std::size_t part) {
  is_invalid_ = true;
  std::vector<std::string_view> known;
  for (const MatchedRule& matched : matched_) {
    if (matched.part != part) continue;
    for (const RuleLimit& limit : matched.rule->limits) known.push_back(limit.name);
  }
  mistake_ = "the rules that apply have no limit " + in_quotes(name) +
             "; expected the name of a limit: " + either(known);
}

void NamedLimits::explain_length(const Rule& rule, std::uint32_t attribute) {
  is_invalid_ = true;
  mistake_ = "the attribute " + in_quotes(set_->attributes.names()[attribute]) + " has " +
             std::to_string(values_.get(attribute)->size()) +
             " bytes, too many for the expressions up to the rule " + in_quotes(rule.name) +
             "; expected at most " + std::to_string(AttributeValues::kLong) +
             " bytes, or that all expressions together read at most " +
             std::to_string(AttributeValues::kMostLongBytes) + " bytes of longer values";
}

void NamedLimits::name_rule(const Rule& rule, const CompiledRule& compiled,
                            const RequestCosts& costs, std::size_t part) {
  MatchedRule& matched = matched_.emplace_back(rule, part, limits_.size());
  matched.new_keys = compiled.new_keys.get();
  if (rule.action == RuleAction::kDeny && asks(terms_.verb)) matched.refused = Reason::kDenyRule;
  if (!rule.plans.empty()) {
    std::tie(matched.plan, matched.has_unknown_plan) = compiled.plan.find(rule, values_);
  }
  const auto first = [&] { return limits_.begin() + static_cast<std::ptrdiff_t>(matched.first); };
  for (std::size_t i = 0; i < rule.limits.size(); ++i) {
    add_limit(rule, compiled, i);
    const Reason refused = name_limit(compiled.limits[i], costs);
    if (refused == Reason::kOk || matched.refused == Reason::kBlocked) continue;
    matched.refused = refused;
    if (refused == Reason::kBlocked) continue;  // another one may be blocked for longer
    if (refused == Reason::kInvalid && matched.enforced() && mistake_.empty()) {
      explain(rule.limits[i]);
    }
    limits_.erase(first(), limits_.end());
    add_limit(rule, compiled, i);
    break;
  }
  if (matched.refused == Reason::kBlocked) {
    const auto is_not_blocked = [](const NamedLimit& limit) { return !limit.is_blocked; };
    limits_.erase(std::remove_if(first(), limits_.end(), is_not_blocked), limits_.end());
  }
  matched.last = limits_.size();
  matched.tag_at = text_.size();
  compiled.tag.fill_tag(values_, text_);
  matched.tag_end = text_.size();
}

// Adds a limit of the latest rule, with the numbers of its plan.
void NamedLimits::add_limit(const Rule& rule, const CompiledRule& compiled, std::size_t index) {
  const RuleLimit& limit = rule.limits[index];
  const bool has_plans = !limit.by_plan.empty();
  const Limit& numbers = has_plans ? limit.by_plan[matched_.back().plan] : limit.limit;
  limits_.emplace_back(limit, numbers, compiled.limits[index].id);
}

// Fills in the cost and the key of the latest limit, or drops it. Returns the reason if the limit
// denies for that, else kOk.
Reason NamedLimits::name_limit(const CompiledLimit& compiled, const RequestCosts& costs) {
  NamedLimit& named = limits_.back();
  const RuleLimit& limit = *named.limit;
  const bool is_left = terms_.leaves_permits && holds_permits(limit.limit.algorithm());
  if (is_left || !applies(compiled) || (changes_block(terms_.verb) && !limit.block)) {
    limits_.pop_back();
    return Reason::kOk;
  }
  named.looks = compiled.count && takes(terms_.verb);
  named.key_at = text_.size();
  text_.append(compiled.prefix);
  const auto label = compiled.key.fill(values_, text_, named.key_end, scratch_);
  if (label) {
    named.label_at = label->at;
    named.label_size = label->size;
    Reason refused = Reason::kOk;
    if (terms_.overrides != nullptr && override_limit(named, refused)) return refused;
  }
  const Reason wrong = find_costs(compiled, costs, label.has_value(), named);
  if (wrong == Reason::kOk) return Reason::kOk;
  text_.resize(named.key_at);
  limits_.pop_back();
  return wrong == Reason::kMissing && limit.on_missing == OnMissing::kSkip ? Reason::kOk : wrong;
}

// Gives the limit the numbers of an override. Returns whether that decides the limit already: only
// the block of its key applies, or nothing and it is dropped, or the override blocks its key.
bool NamedLimits::override_limit(NamedLimit& named, Reason& refused) {
  using Kind = Override::Kind;
  const std::string_view key =
      std::string_view(text_).substr(named.key_at, named.key_end - named.key_at);
  const auto given = terms_.overrides->find(key, terms_.now);
  if (!given) return false;
  if (given->kind == Kind::kUnlimited) {
    if (named.limit->block && (changes_block(terms_.verb) || terms_.verb == Verb::kReset)) {
      return false;
    }
    named.is_unlimited = named.limit->block && asks(terms_.verb);
    named.looks = false;
    if (named.is_unlimited) return true;
    text_.resize(named.key_at);
    limits_.pop_back();
    return true;
  }
  const Rule& rule = *matched_.back().rule;
  named.numbers = override_numbers_.with(*given, rule, *named.limit, named.numbers);
  if (given->kind != Kind::kBlocked || !asks(terms_.verb)) return false;
  const Instant now = terms_.now ? *terms_.now : SystemClock().now();
  if (given->until) named.blocked_for = std::max(*given->until - now, Duration{1});
  named.is_blocked = true;
  refused = Reason::kBlocked;
  return true;
}

Reason NamedLimits::find_costs(const CompiledLimit& compiled, const RequestCosts& costs,
                               bool has_key, NamedLimit& named) {
  Reason wrong = has_key ? Reason::kOk : Reason::kMissing;
  if (compiled.cost.kind() == CostTemplate::Kind::kUnset && costs.limits.empty()) {
    named.cost = unset_cost(costs);
  } else if (has_key) {
    wrong = find_cost(*named.limit, compiled, costs, named.cost);
  }
  if (wrong == Reason::kOk && terms_.actual != nullptr) {
    wrong = find_cost(*named.limit, compiled, *terms_.actual, named.actual);
  }
  if (wrong == Reason::kOk && terms_.response != nullptr) {
    wrong = count_response(*compiled.count, named.cost);
  }
  if (named.looks && terms_.verb == Verb::kTakeAtMost)
    named.cost = std::min<std::uint64_t>(named.cost, 1);
  if (wrong == Reason::kOk && refuses(named.numbers)) wrong = Reason::kInvalid;
  return wrong;
}

// Limits with `count` are charged by reports alone, which charge no other limits. A request has
// taken nothing from them, so that there is nothing to give back or to settle.
bool NamedLimits::applies(const CompiledLimit& compiled) const noexcept {
  if (terms_.response != nullptr) return compiled.count.has_value();
  return !compiled.count || takes(terms_.verb) || terms_.verb == Verb::kPeek ||
         terms_.verb == Verb::kReset || changes_block(terms_.verb);
}

// Changes the cost of the request to that of its response.
Reason NamedLimits::count_response(const ResponseCount& count, std::uint64_t& cost) {
  auto units = count.units(*terms_.response, cost);
  if (units) {
    cost = *units;
    return Reason::kOk;
  }
  response_mistake_ = std::move(units.error());
  return Reason::kInvalid;
}

// Whether the verb is not for a limit with permits, or nobody would receive the permit.
bool NamedLimits::refuses(const Limit& limit) const noexcept {
  if (!holds_permits(limit.algorithm())) return false;
  if (terms_.verb == Verb::kCharge) return terms_.actual == nullptr;
  return takes(terms_.verb) && terms_.refuses_permits;
}

// Sets the cost. Returns kMissing if its attribute is missing, kInvalid if that is no number of
// units, else kOk.
Reason NamedLimits::find_cost(const RuleLimit& limit, const CompiledLimit& compiled,
                              const RequestCosts& costs, std::uint64_t& found_cost) {
  using Kind = CostTemplate::Kind;
  const Kind kind = compiled.cost.kind();
  for (const LimitCost& cost : costs.limits) {
    if (cost.limit != limit.name) continue;
    found_cost = cost.units;
    return Reason::kOk;
  }
  if (kind != Kind::kAttribute) {
    found_cost = kind == Kind::kUnits     ? *compiled.cost.units()
                 : kind == Kind::kRequest ? costs.units
                                          : unset_cost(costs);
    return Reason::kOk;
  }
  if (terms_.verb == Verb::kReset) return Reason::kOk;
  const auto found = compiled.cost.find(values_);
  wrong_ = found.wrong;
  if (found.wrong) return Reason::kInvalid;
  found_cost = found.units.value_or(1);
  return found.units ? Reason::kOk : Reason::kMissing;
}

// Says why the limit cannot be decided.
void NamedLimits::explain(const RuleLimit& limit) {
  if (refuses(limit.limit)) return explain_permit(limit);
  if (response_mistake_.empty()) return explain_cost(limit);
  mistake_ = std::move(response_mistake_);
}

// Says which attribute is no cost.
void NamedLimits::explain_cost(const RuleLimit& limit) {
  mistake_ = "the cost of the limit " + in_quotes(limit.name) + ", " +
             in_quotes(set_->attributes.names()[*wrong_]) + ", is " +
             in_quotes(*values_.get(*wrong_)) + "; expected a whole number from 0 to 4294967295";
}

void NamedLimits::explain_permit(const RuleLimit& limit) {
  mistake_ = "the limit " + in_quotes(limit.name) + " holds permits (concurrency), ";
  mistake_ += terms_.verb == Verb::kCharge
                  ? "which cannot be charged; expected a check"
                  : "which this kind of request cannot receive; expected /v1/check, RL.CHECK or "
                    "the library";
}

bool NamedLimits::is_denied_by_rule(RuleMode mode) const noexcept {
  return std::any_of(matched_.begin(), matched_.end(), [&](const MatchedRule& matched) {
    return matched.denies_itself() && matched.rule->mode == mode;
  });
}

// An enforced rule denies itself, or because a limit cannot be decided. The other limits do not
// matter then.
void NamedLimits::keep_refused() {
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

}  // namespace sluice::rules
