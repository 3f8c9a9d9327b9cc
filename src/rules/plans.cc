#include "rules/plans.h"

#include <algorithm>
#include <array>

#include "rules/diagnostics.h"
#include "rules/rule_set.h"
#include "rules/schema.h"

namespace sluice::rules {
namespace {

constexpr std::array<std::string_view, 4> kNumbers{"limit", "per", "lease", "burst"};

std::vector<std::string_view> plan_names(const std::vector<FilePlans::Plan>& plans) {
  std::vector<std::string_view> names;
  names.reserve(plans.size());
  for (const FilePlans::Plan& plan : plans) names.push_back(plan.name);
  return names;
}

FilePlans::Plan read_plan(const Node& name, const Node& node, const schema::Map& keys,
                          const PriceTable& of_file, Diagnostics& diagnostics) {
  FilePlans::Plan plan{name.text, name.at, {}};
  if (!node.is_map() || node.pairs.empty()) {
    diagnostics.add(node.at, "the plan " + in_quotes(name.text) + " is " + describe(node),
                    "expected a map from names of limits to their numbers");
    return plan;
  }
  for (const auto& [limit, numbers] : node.pairs) {
    plan.limits.push_back({limit->text, limit->at, Fields::read(*numbers, keys, diagnostics), {}});
    FilePlans::Numbers& read = plan.limits.back();
    if (const Node* const prices = read.fields.node("prices")) {
      read.prices = std::make_shared<PriceTable>(PriceTable::read(*prices, diagnostics, &of_file));
    }
  }
  return plan;
}

}  // namespace

bool is_number(std::string_view key) { return std::ranges::find(kNumbers, key) != kNumbers.end(); }

bool has_numbers(const Fields& limit) {
  const auto algorithm = limit.choice<Algorithm>("algorithm");
  const bool has_quota_lease = algorithm && !holds_permits(*algorithm);
  return std::ranges::any_of(kNumbers, [&](std::string_view key) {
    return limit.has(key) && !(has_quota_lease && key == "lease");
  });
}

const FilePlans::Numbers* FilePlans::Plan::find(std::string_view limit) const {
  const auto found = std::ranges::find(limits, limit, &Numbers::limit);
  return found == limits.end() ? nullptr : &*found;
}

FilePlans FilePlans::read(const Node& node, const schema::Map& keys, const PriceTable& prices,
                          Diagnostics& diagnostics) {
  FilePlans plans;
  for (const auto& [name, numbers] : node.pairs) {
    if (name->text.empty() || name->text.size() > 128) {
      diagnostics.add(name->at, "the name of a plan is " + describe(*name),
                      "expected text of 1 to 128 bytes");
    }
    plans.plans_.push_back(read_plan(*name, *numbers, keys, prices, diagnostics));
  }
  std::ranges::sort(plans.plans_, {}, &Plan::name);
  return plans;
}

void FilePlans::choose(const Fields& fields, Rule& rule, const KeyTemplate& from,
                       Diagnostics& diagnostics) const {
  const Node* otherwise = fields.node("default");
  const Node* given = fields.node("from");
  if (given != nullptr && !from.is_one_value() && (!from.is_empty() || given->text.empty())) {
    diagnostics.add(given->at, "'from' is " + describe(*given),
                    "expected one attribute, such as \"{header.x-plan}\"");
  }
  const auto names = plan_names(plans_);
  rule.plans.assign(names.begin(), names.end());
  if (otherwise == nullptr) return;
  if (std::ranges::find(names, otherwise->text) != names.end()) return;
  diagnostics.add(otherwise->at, "there is no plan " + in_quotes(otherwise->text),
                  names.empty()
                      ? "expected 'plans:' in this file, with numbers for each plan"
                      : "expected one of: " + either(names) + did_you_mean(otherwise->text, names));
}

void FilePlans::explain_lack(const Plan& plan, std::string_view rule, std::string_view limit,
                             Diagnostics& diagnostics) {
  std::vector<std::string_view> known;
  for (const auto& numbers : plan.limits) known.push_back(numbers.limit);
  diagnostics.add(
      plan.at,
      "the plan " + in_quotes(plan.name) + " lacks numbers for the limit " + in_quotes(limit) +
          " of the rule " + in_quotes(rule),
      "expected " + std::string(limit) + ": { limit: ..., per: ... }" + did_you_mean(limit, known));
}

void FilePlans::warn_of_zero(const Fields& fields, const Rule& rule, const RuleLimit& limit,
                             const Warn& warn) {
  if (rule.mode == RuleMode::kShadow || limit.alternative || fields.has("overflow")) return;
  const auto denies_all = [](const Limit& one) { return one.limit() == 0; };
  if (!denies_all(limit.limit) || !std::ranges::all_of(limit.by_plan, denies_all)) return;
  warn(fields.at("limit"),
       "limit " + in_quotes(limit.name) + " of rule " + in_quotes(rule.name) +
           " is 0, which denies every request",
       "expected at least 1, or a rule with 'action: deny'");
}

std::optional<std::size_t> find_plan(const Rule& rule, std::string_view name) noexcept {
  const auto found = std::ranges::lower_bound(rule.plans, name);
  if (found == rule.plans.end() || *found != name) return std::nullopt;
  return static_cast<std::size_t>(found - rule.plans.begin());
}

std::pair<std::size_t, bool> CompiledRule::choose_plan(const Rule& rule,
                                                       AttributeValues& values) const {
  const auto name = plan_from.one_value(values);
  if (!name) return {default_plan, false};
  const auto found = find_plan(rule, *name);
  return {found.value_or(default_plan), !found};
}

}  // namespace sluice::rules
