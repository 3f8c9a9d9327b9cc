#include "rules/rule_action.h"

#include <array>
#include <string>
#include <string_view>

#include "rules/schema.h"

namespace sluice::rules {
namespace {

// Keys that count, or name counters.
constexpr std::array<std::string_view, 4> kOfCounters{"limits", "plan", "tag", "max_new_keys"};

std::string expectation_of(std::string_view name) {
  for (const schema::Key& key : schema::child(schema::file(), "rules").keys) {
    if (key.name == name) return schema::expectation(key);
  }
  return {};
}

void refuse(const Fields& rule, std::string_view key, std::string_view action,
            Diagnostics& diagnostics) {
  if (!rule.has(key)) return;
  diagnostics.add(rule.at(key),
                  "'" + std::string(key) + "' with 'action: " + std::string(action) + "'",
                  "expected a rule without '" + std::string(key) + "'");
}

}  // namespace

RuleAction read_action(const Fields& rule, Diagnostics& diagnostics) {
  enum class Choice : std::uint8_t { kAllow, kDeny };
  const auto choice = rule.choice<Choice>("action");
  if (!choice) {
    if (!rule.has("limits") && !rule.has("action")) {
      diagnostics.add(rule.at("limits"), "rule lacks 'limits'",
                      "expected 'limits:' with " + expectation_of("limits") + ", or 'action:'");
    }
    return RuleAction::kLimit;
  }
  const bool allows = *choice == Choice::kAllow;
  const std::string_view name = allows ? "allow" : "deny";
  for (const std::string_view key : kOfCounters) refuse(rule, key, name, diagnostics);
  if (!allows) return RuleAction::kDeny;
  refuse(rule, "reject", name, diagnostics);
  if (rule.flag("continue") == true) refuse(rule, "continue", name, diagnostics);
  if (rule.choice<RuleMode>("mode") == RuleMode::kShadow) {
    diagnostics.add(rule.at("mode"), "'mode: shadow' with 'action: allow'",
                    "expected 'mode: enforce', or no 'mode'");
  }
  return RuleAction::kAllow;
}

}  // namespace sluice::rules
