#include "sluice/rule_answer.h"

#include <algorithm>

#include "limiter/http_fields.h"
#include "rules/rule_decider.h"

namespace sluice {

bool RuleAnswer::degraded() const noexcept {
  return std::ranges::any_of(matched, [](const Matched& rule) { return rule.degraded; });
}

const LimitAnswer* RuleAnswer::charged() const noexcept {
  for (std::size_t i = 1; i < limits.size(); ++i) {
    const bool is_in_row =
        limits[i].limit->alternative && limits[i].rule->mode == RuleMode::kEnforce;
    if (!is_in_row) continue;
    const LimitAnswer* one = &limits[i - 1];
    while (one->decision.passed_over && one != &limits.back()) ++one;
    return decision.allowed() && has_numbers(one->decision) ? one : nullptr;
  }
  return nullptr;
}

namespace {

// Returns whether `text` is "RULE/NAME".
bool is_joined(std::string_view text, std::string_view rule, std::string_view name) noexcept {
  return text.size() == rule.size() + 1 + name.size() && text.substr(0, rule.size()) == rule &&
         text[rule.size()] == '/' && text.substr(rule.size() + 1) == name;
}

}  // namespace

std::string_view group_of(std::span<const LimitAnswer> limits, std::size_t index) noexcept {
  const std::string& name = limits[index].limit->name;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (i == index) continue;
    const std::string& other = limits[i].limit->name;
    if (name == other || is_joined(name, limits[i].rule->name, other)) {
      return limits[index].rule->name;
    }
  }
  return {};
}

// Selects the reported limits, and returns the wanted fields.
HeaderFields RuleHttpFields::choose(const RuleAnswer& answer) {
  shown_.clear();
  const LimitAnswer* tightest = nullptr;
  for (std::size_t i = 0; i < answer.limits.size(); ++i) {
    const LimitAnswer& one = answer.limits[i];
    if (one.rule->mode == RuleMode::kShadow || one.decision.passed_over) continue;
    shown_.push_back({one.limit->name, one.numbers, one.decision, group_of(answer.limits, i)});
    if (tightest == nullptr || tighter(one.decision, tightest->decision)) tightest = &one;
  }
  const bool has_limits = answer.rule != nullptr && answer.rule->mode == RuleMode::kEnforce &&
                          answer.rule->action == RuleAction::kLimit;
  if (has_limits) return answer.rule->headers;
  return tightest == nullptr ? HeaderFields::kNone : tightest->rule->headers;
}

std::span<const HttpField> RuleHttpFields::of(const RuleAnswer& answer) {
  const HeaderFields wanted = choose(answer);
  return fields_.of(shown_, answer.decision, wanted);
}

std::string_view RuleHttpFields::lines(const RuleAnswer& answer) {
  const HeaderFields wanted = choose(answer);
  return fields_.lines(shown_, answer.decision, wanted);
}

}  // namespace sluice
