// Rules with plans, and with a million overrides.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/paired.h"
#include "bench/report.h"
#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "RuleDecider::decide() by a rule with one token bucket for each of 100,000 customers, with an\n"
    "explicit timestamp, against the same with the limit's own numbers. `plan`: the request names\n"
    "the plan. `overrides`: every customer has one. Processor time; adjacent 10 ms blocks.";

constexpr std::size_t kCustomers = 100'000;

RuleSet rules_with(const std::string& plan, const std::string& numbers) {
  const std::string yaml =
      "version: 1\n"
      "plans:\n"
      "  free: { requests: { limit: 1000000000, per: 1s } }\n"
      "  plus: { requests: { limit: 2000000000, per: 1s } }\n"
      "  pro: { requests: { limit: 4000000000, per: 1s } }\n"
      "rules:\n  - name: api\n" +
      plan +
      "    limits: [ { name: requests, key: \"{header.x-customer}\", algorithm: token_bucket" +
      numbers + " } ]\n";
  return RuleSet::parse(yaml, "rules").value();
}

// The same requests for two sets of rules.
class Case {
 public:
  Case(RuleSet rules, const Overrides* overrides)
      : rules_(std::move(rules)), decider_(limiter_, {.overrides = overrides}) {}

  void decide(const std::vector<Attributes>& requests, std::size_t from, std::size_t count) {
    for (std::size_t i = from; i < from + count; ++i) {
      now_ += Duration{1};
      benchmark::DoNotOptimize(
          &decider_.decide(rules_, requests[i % requests.size()], {}, now_).decision);
    }
  }

 private:
  RuleSet rules_;
  MemoryStore store_{{.max_keys = 2 * kCustomers}};
  Limiter limiter_{store_};
  RuleDecider decider_;
  Instant now_{std::chrono::hours{1}};
};

class OverridesBench {
 public:
  explicit OverridesBench(const Options& options) : options_(options) {
    std::mt19937 random(7);
    constexpr const char* kPlans[] = {"free", "plus", "pro"};
    for (std::size_t i = 0; i < (options.smoke ? 4096U : 1U << 16); ++i) {
      const std::string customer = "customer-" + std::to_string(random() % kCustomers);
      requests_.push_back({{"header.x-customer", customer}, {"header.x-plan", kPlans[i % 3]}});
    }
  }

  void plans() {
    const Ratio ratio = compare(
        rules_with("    plan: { from: \"{header.x-plan}\", default: free }\n", ""), nullptr);
    row("plan", ratio);
    promise_at_most("rule-plan-ns", ratio.more_ns, 40);
  }
  void overrides() {
    const std::size_t count = options_.smoke ? 10'000 : 1'000'000;
    Overrides all;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string counter =
          "default|api|requests|header.x-customer=customer-" + std::to_string(i);
      static_cast<void>(all.set(counter, {.limit = 2'000'000'000}));
    }
    row("overrides, " + short_count(count), compare(plain(), &all));
    promise_at_most("override-bytes", static_cast<double>(all.bytes()) / static_cast<double>(count),
                    100);
  }

 private:
  static RuleSet plain() { return rules_with("", ", limit: 1000000000, per: 1s"); }

  Ratio compare(RuleSet rules, const Overrides* overrides) {
    Case base(plain(), nullptr);
    Case subject(std::move(rules), overrides);
    const auto run = [this](Case& one) {
      return
          [this, &one](std::size_t from, std::size_t count) { one.decide(requests_, from, count); };
    };
    base.decide(requests_, 0, requests_.size());
    subject.decide(requests_, 0, requests_.size());
    return Paired(options_.paired()).measure(run(base), run(subject));
  }

  const Options options_;
  std::vector<Attributes> requests_;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  table("overrides: plans and overrides of a rule", kLegend);
  OverridesBench bench(options);
  bench.plans();
  bench.overrides();
}
