#include "server/decide/rule_counters.h"

#include <string_view>
#include <utility>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "core/limit.h"
#include "rules/override_text.h"
#include "rules/plans.h"
#include "rules/rule_set.h"

namespace sluice::server {
namespace {

// Returns "header.x-user-id or ip" for each part of the key that has a value of neither.
std::vector<std::string> missing_of(const rules::KeyTemplate& key,
                                    const rules::AttributeTable& table,
                                    rules::AttributeValues& values) {
  std::vector<std::string> missing;
  for (const std::vector<std::uint32_t>& one_of : key.needs()) {
    std::vector<std::string_view> names;
    bool has_value = false;
    for (const std::uint32_t attribute : one_of) {
      const auto& value = values.get(attribute);
      has_value = has_value || (value && !value->empty());
      names.push_back(table.names()[attribute]);
    }
    if (!has_value) missing.push_back(base::joined(names, " or ", " or "));
  }
  return missing;
}

}  // namespace

std::string RuleCounter::missing_names() const { return base::joined(missing); }

Charge RuleCounter::charge(std::uint64_t cost) const {
  return {.key = key,
          .limit = numbers,
          .cost = cost,
          .tag = tag,
          .block = limit->block_of_charges(),
          .rule = {Keyspace::kRules, id}};
}

Charge RuleCounter::block_charge() const {
  Charge out = charge(1);
  if (out.block == nullptr || numbers.capacity() > 0) return out;
  LimitSpec spec = core::spec_of(numbers);
  spec.limit = 1;
  if (const auto asked = Limit::make(spec)) out.limit = *asked;
  return out;
}

std::string override_text(const Override& given) {
  using Kind = Override::Kind;
  std::string text;
  switch (given.kind) {
    case Kind::kNumbers: text = "limit " + std::to_string(given.limit); break;
    case Kind::kPlan: text = "plan " + given.plan; break;
    case Kind::kUnlimited: text = "unlimited"; break;
    case Kind::kBlocked: text = "blocked"; break;
  }
  if (given.per || given.calendar) text += " per " + rules::period_of(given);
  if (given.burst) text += " burst " + std::to_string(*given.burst);
  if (given.until) text += ", until " + base::to_rfc3339(*given.until);
  return text;
}

std::vector<RuleCounter> counters_of(const RuleSet& rules, const Rule& rule,
                                     const AttributeSource& attributes,
                                     const Overrides* overrides) {
  const RuleSet::Impl& set = rules.impl();
  const auto& compiled = set.compiled_of(rule);
  rules::AttributeValues values;
  values.begin(set.attributes, attributes);
  std::vector<RuleCounter> counters;
  std::string tag;
  compiled.tag.fill_tag(values, tag);
  std::string scratch;
  const std::size_t plan = rule.plans.empty() ? 0 : compiled.choose_plan(rule, values).first;
  for (std::size_t i = 0; i < rule.limits.size(); ++i) {
    const RuleLimit& limit = rule.limits[i];
    const bool has_plans = !limit.by_plan.empty();
    RuleCounter counter{&limit,
                        {},
                        {},
                        tag,
                        {},
                        has_plans ? rule.plans[plan] : std::string(),
                        has_plans ? limit.by_plan[plan] : limit.limit,
                        compiled.limits[i].id};
    std::string text = compiled.limits[i].prefix;
    std::size_t end = 0;
    if (const auto label = compiled.limits[i].key.fill(values, text, end, scratch)) {
      counter.key = text.substr(0, end);
      counter.label = text.substr(*label);
      if (const auto given = overrides != nullptr ? overrides->find(counter.key) : std::nullopt) {
        counter.numbers = rules::numbers_with(*given, rule, limit, counter.numbers);
        const bool has_plan = given->kind == Override::Kind::kPlan && has_plans &&
                              rules::find_plan(rule, given->plan);
        if (has_plan) counter.plan = given->plan;
      }
    } else {
      counter.missing = missing_of(compiled.limits[i].key, set.attributes, values);
    }
    counters.push_back(std::move(counter));
  }
  return counters;
}

}  // namespace sluice::server
