// Which limits apply to a bucket.

#include <algorithm>
#include <optional>
#include <span>

#include "core/period.h"
#include "rules/counter_key.h"
#include "rules/diagnostics.h"
#include "rules/override_text.h"
#include "rules/rule_set.h"
#include "server/api/quota/quota_service.h"
#include "server/decide/named_attributes.h"
#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/rule_decider.h"

namespace sluice::server {
namespace {

bool can_be_assigned(const Limit& numbers, const RuleLimit& limit) noexcept {
  const Algorithm algorithm = numbers.algorithm();
  return !holds_permits(algorithm) && !holds_amounts(algorithm) && !limit.counts_responses;
}

constexpr std::uint64_t kMostWeight = 1'000'000;

// The weight of a bucket; 1 if its attribute is missing or no number.
std::uint32_t weight_of(const RuleSet& rules, const LimitAnswer& limit,
                        const AttributeSource& attributes) {
  const RuleSet::Impl& set = rules.impl();
  const rules::CostTemplate& weight = set.compiled_of(*limit.rule, *limit.limit).weight;
  if (weight.kind() == rules::CostTemplate::Kind::kUnset) return 1;
  rules::AttributeValues values;
  values.begin(set.attributes, attributes);
  const auto found = weight.find(values, {}, 0, kMostWeight);
  return found && *found ? static_cast<std::uint32_t>(**found) : 1;
}

}  // namespace

Charge BucketLimit::charge(std::uint64_t units) const {
  return {.key = key, .limit = numbers, .cost = units, .tag = tag, .block = block, .rule = of_rule};
}

Decision BucketResolver::apply(Action, std::span<const Charge> charges, std::optional<Instant>,
                               std::span<Decision> each) noexcept {
  charges_.insert(charges_.end(), charges.begin(), charges.end());
  std::fill(each.begin(), each.end(), Decision{});
  return {};
}

// The charge of this limit of the latest answer. Null: there was none.
const Charge* BucketResolver::charge_of(const LimitAnswer& limit) const noexcept {
  const auto found = std::find_if(charges_.begin(), charges_.end(), [&](const Charge& charge) {
    return charge.key == limit.counter && charge.limit.algorithm() == limit.numbers.algorithm();
  });
  return found == charges_.end() ? nullptr : &*found;
}

BucketRules BucketResolver::resolve(const RuleSet& rules, std::string_view domain,
                                    const BucketAttributes& attributes) {
  NamedAttributes source;
  for (const auto& [name, value] : attributes) source.add(name, value);
  source.finish();
  if (domain == kCounterDomain) return resolve_counter(rules, source);
  charges_.clear();
  const RequestPart part{&source, {}};
  const RuleAnswer& answer = decider_.decide_parts(rules, domain, {&part, 1}, {}, Verb::kTake);
  BucketRules out;
  if (!answer.decision.allowed()) {
    out.verdict = Assignment::Kind::kDenyAll;
    return out;
  }
  for (const LimitAnswer& limit : answer.limits) {
    const Charge* const charge = charge_of(limit);
    if (!can_be_assigned(limit.numbers, *limit.limit)) {
      out.not_assigned.push_back(rules::full_name(limit.rule->name, limit.limit->name));
    } else if (charge != nullptr && charge->cost > 0) {
      auto& kind = limit.rule->mode == RuleMode::kShadow ? out.shadow : out.limits;
      kind.push_back({.rule = limit.rule,
                      .limit = limit.limit,
                      .key = std::string(limit.counter),
                      .label = std::string(limit.label),
                      .tag = std::string(limit.tag),
                      .numbers = limit.numbers,
                      .of_rule = charge->rule,
                      .block = charge->block,
                      .cost = charge->cost,
                      .weight = weight_of(rules, limit, source),
                      .at_least = limit.limit->share_at_least});
    }
  }
  if (!out.limits.empty()) out.verdict = Assignment::Kind::kTokens;
  return out;
}

// As a decision would find the limit, except that the other server has chosen the plan.
BucketRules BucketResolver::resolve_counter(const RuleSet& rules,
                                            const AttributeSource& attributes) const {
  BucketRules out;
  out.verdict.reset();
  const std::string_view written = attributes.find("counter").value_or("");
  // A block can be of any limit.
  auto counter = rules::check_counter(rules, written, {.kind = Override::Kind::kBlocked});
  const auto key = rules::parse_counter_key(written);
  if (!counter || !key) {
    out.not_assigned.emplace_back(written);
    return out;
  }
  const Rule& rule = *rules.find(key->rule);
  const auto limit = std::ranges::find(rule.limits, key->limit, &RuleLimit::name);
  const auto given = overrides_ != nullptr ? overrides_->find(*counter) : std::nullopt;
  const RuleSet::Impl& set = rules.impl();
  const auto& compiled = set.compiled_of(rule);
  BucketLimit found{.rule = &rule,
                    .limit = &*limit,
                    .key = *std::move(counter),
                    .label = std::string(written),
                    .tag = std::string(attributes.find("tag").value_or("")),
                    .numbers = limit->limit,
                    .of_rule = {.keyspace = Keyspace::kRules, .new_keys = compiled.new_keys.get()},
                    .block = nullptr,
                    .cost = 1,
                    .at_least = limit->share_at_least};
  found.of_rule.limit_id =
      compiled.limits[static_cast<std::size_t>(limit - rule.limits.begin())].id;
  const std::string_view numbers = attributes.find("numbers").value_or("");
  for (const Limit& planned : limit->by_plan) {
    if (core::format_limit(planned) == numbers) found.numbers = planned;
  }
  if (given) found.numbers = rules::numbers_with(*given, rule, *limit, found.numbers);
  if (!can_be_assigned(found.numbers, *limit)) {
    out.not_assigned.emplace_back(written);
  } else if (given && given->kind == Override::Kind::kBlocked) {
    out.verdict = Assignment::Kind::kDenyAll;
  } else if (rule.mode == RuleMode::kShadow) {
    out.verdict = Assignment::Kind::kAllowAll;
    out.shadow.push_back(std::move(found));
  } else if (given && given->kind == Override::Kind::kUnlimited) {
    out.verdict = Assignment::Kind::kAllowAll;
  } else {
    out.verdict = Assignment::Kind::kTokens;
    out.limits.push_back(std::move(found));
  }
  return out;
}

bool has_domain(const RuleSet& rules, std::string_view domain) noexcept {
  const auto all = rules.rules();
  return domain == kCounterDomain || std::any_of(all.begin(), all.end(), [&](const Rule& rule) {
           return rule.domain == domain;
         });
}

}  // namespace sluice::server
