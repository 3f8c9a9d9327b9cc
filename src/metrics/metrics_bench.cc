#include <benchmark/benchmark.h>

#include "metrics/metrics.h"

namespace sluice::metrics {
namespace {

RuleSet three_limits() {
  return RuleSet::parse(
             "version: 1\n"
             "rules:\n"
             "  - name: other\n"
             "    limits: [{ algorithm: gcra, limit: 1, per: 1s }]\n"
             "  - name: order\n"
             "    limits:\n"
             "      - { name: global, algorithm: gcra, limit: 1, per: 1s }\n"
             "      - { name: api, algorithm: gcra, limit: 1, per: 1s }\n"
             "      - { name: user, algorithm: gcra, limit: 1, per: 1s }\n",
             "bench")
      .value();
}

void count(benchmark::State& state) {
  const RuleSet rules = three_limits();
  Registry registry;
  Recorder& recorder = registry.make_recorder();
  recorder.use(rules);
  RuleAnswer answer;
  answer.rule = &rules.rules()[1];
  for (const RuleLimit& limit : answer.rule->limits) {
    answer.limits.push_back({answer.rule, &limit, {}, {}, {}});
  }
  answer.limits.resize(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) recorder.count(answer);
}
BENCHMARK(count)->ArgName("limits")->DenseRange(0, 3);

void observe(benchmark::State& state) {
  Registry registry;
  Recorder& recorder = registry.make_recorder();
  std::int64_t ns = 1;
  for (auto _ : state) {
    ns = (ns * 7) & 0xFFFFF;
    recorder.observe(FrontEnd::kAuth, std::chrono::nanoseconds(ns));
  }
}
BENCHMARK(observe);

void add(benchmark::State& state) {
  Registry registry;
  Recorder& recorder = registry.make_recorder();
  for (auto _ : state) recorder.add(Event::kAccepted);
}
BENCHMARK(add);

// A text of that many limits, counted by two recorders.
void text(benchmark::State& state) {
  std::string yaml = "version: 1\nrules:\n";
  for (int i = 0; i < state.range(0); ++i) {
    yaml += "  - name: rule-" + std::to_string(i) +
            "\n    limits: [{ algorithm: gcra, limit: 1, per: 1s }]\n";
  }
  const RuleSet rules = RuleSet::parse(yaml, "bench").value();
  Registry registry;
  for (int i = 0; i < 2; ++i) registry.make_recorder().use(rules);
  for (auto _ : state) benchmark::DoNotOptimize(registry.text());
}
BENCHMARK(text)->ArgName("limits")->Arg(1)->Arg(100)->Arg(10000);

}  // namespace
}  // namespace sluice::metrics
