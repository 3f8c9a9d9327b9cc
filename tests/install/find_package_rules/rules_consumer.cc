// A program that decides by rules, from an installation.

#include <cstdio>

#include "sluice/attributes.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"
#include "sluice/sluice.h"

constexpr const char* kRules = R"(
version: 1
domain: test
rules:
  - name: api
    match: { path: /api/** }
    limits:
      - { key: "{ip}", algorithm: fixed_window, limit: 1, per: 1h }
)";

int main() {
  const auto rules = sluice::RuleSet::parse(kRules, "rules.yaml");
  if (!rules) {
    for (const auto& error : rules.error()) std::puts(error.to_string().c_str());
    return 1;
  }
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  sluice::RuleDecider request(limiter);
  const sluice::Attributes attributes{{"path", "/api/x"}, {"ip", "192.0.2.1"}};
  const bool first = request.decide(*rules, attributes).decision.allowed();
  const bool second = request.decide(*rules, attributes).decision.allowed();
  return first && !second ? 0 : 1;
}
