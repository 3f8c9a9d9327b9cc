// Limits in a file: they change without a new program.
#include <sluice/rule_decider.h>
#include <sluice/rule_set.h>
#include <sluice/sluice.h>

#include <cstdio>

// [start file]
constexpr const char* kRules = R"(
version: 1
rules:
  - name: exports
    match: { method: POST, path: /exports }
    limits:
      - { name: customer, key: "{customer}", algorithm: token_bucket, limit: 10, per: 1m, burst: 2 }
      - { name: traffic, key: "{customer}", algorithm: token_bucket, limit: 600, per: 1m,
          burst: 100, cost: "{megabytes|1}" }
)";
// [end file]

// [start decide]
void decide(const sluice::RuleSet& rules, sluice::Limiter& limiter, const char* megabytes) {
  sluice::RuleDecider decider(limiter);
  const sluice::Attributes request{
      {"method", "POST"}, {"path", "/exports"}, {"customer", "42"}, {"megabytes", megabytes}};
  const sluice::RuleAnswer& answer = decider.decide(rules, request);
  for (const sluice::LimitAnswer& limit : answer.limits) {
    std::printf("%s: %lu left, ", limit.limit->name.c_str(), limit.decision.remaining);
  }
  std::puts(answer.decision ? "allowed" : "denied");
}
// [end decide]

int main() {
  const auto rules = sluice::RuleSet::parse(kRules, "rules.yaml");
  if (!rules) return 1;
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  decide(*rules, limiter, "40");
  decide(*rules, limiter, "90");
}
