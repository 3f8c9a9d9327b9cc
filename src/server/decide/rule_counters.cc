#include "server/decide/rule_counters.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/civil_time.h"
#include "core/limit.h"
#include "rules/override_text.h"
#include "rules/rule_set.h"

namespace sluice::server {
namespace {

// Removes the text up to the next closing brace from the rest of a checked template. Returns what
// is in the braces, or an empty text at the end.
std::string_view take_braces(std::string_view& rest) {
  for (;;) {
    const std::size_t open = rest.find('{');
    if (open == rest.npos) return {};
    rest.remove_prefix(open + 1);
    if (rest.starts_with('{')) {
      rest.remove_prefix(1);
      continue;
    }
    const std::string_view inner = rest.substr(0, rest.find('}'));
    rest.remove_prefix(inner.size());
    return inner;
  }
}

// Returns "header.x-user-id or ip" if no attribute of "header.x-user-id|ip/64" is present, else an
// empty text.
std::string find_missing(std::string_view alternatives, const AttributeSource& attributes) {
  std::string names;
  while (!alternatives.empty()) {
    const std::string_view written = alternatives.substr(0, alternatives.find('|'));
    alternatives.remove_prefix(std::min(written.size() + 1, alternatives.size()));
    const std::string name = rules::normalized(written.substr(0, written.find('/')));
    if (const auto value = attributes.find(name); value && !value->empty()) return {};
    names.append(names.empty() ? "" : " or ").append(name);
  }
  return names;
}

std::vector<std::string> missing_of(std::string_view key, const AttributeSource& attributes) {
  std::vector<std::string> missing;
  for (auto inner = take_braces(key); !inner.empty(); inner = take_braces(key)) {
    if (std::string names = find_missing(inner, attributes); !names.empty()) {
      missing.push_back(std::move(names));
    }
  }
  return missing;
}

}  // namespace

std::string RuleCounter::missing_names() const {
  std::string out;
  for (const std::string& name : missing) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

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
  const RuleSet::Impl& set = rules::Access::impl(rules);
  const auto& compiled = set.compiled[static_cast<std::size_t>(&rule - set.rules.data())];
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
        if (given->kind == Override::Kind::kPlan) counter.plan = given->plan;
      }
    } else {
      counter.missing = missing_of(rule.limits[i].key, attributes);
    }
    counters.push_back(std::move(counter));
  }
  return counters;
}

}  // namespace sluice::server
