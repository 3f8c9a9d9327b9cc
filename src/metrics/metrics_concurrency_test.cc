#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "metrics/metrics.h"

namespace sluice::metrics {
namespace {

RuleSet rules_named(const std::string& name) {
  return RuleSet::parse(
             "version: 1\nrules:\n  - name: stays\n    limits: [{ name: l, algorithm: "
             "gcra, limit: 1, per: 1s }]\n  - name: " +
                 name + "\n    limits: [{ algorithm: gcra, limit: 1, per: 1s }]\n",
             "test")
      .value();
}

// The value of the series, or -1.
double value_of(const std::string& text, const std::string& series) {
  const auto at = text.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::strtod(&text[at + series.size() + 2], nullptr);
}

constexpr int kThreads = 3;
constexpr int kRounds = 2000;
constexpr int kCountsPerRound = 20;

// What a loop does: follows changes of the rules, and counts answers of the rule that stays.
void follow_and_count(Recorder& recorder, const std::array<RuleSet, 2>& rules) {
  for (int round = 0; round < kRounds; ++round) {
    const RuleSet& now = rules[static_cast<std::size_t>(round % 2)];
    recorder.use(now);
    RuleAnswer answer;
    answer.rule = now.rules().data();
    answer.limits.push_back({answer.rule, answer.rule->limits.data(), {}, {}, {}});
    for (int n = 0; n < kCountsPerRound; ++n) {
      recorder.count(answer);
      recorder.observe(FrontEnd::kAuth, std::chrono::microseconds(n));
      recorder.add(Event::kAccepted);
    }
  }
}

TEST(MetricsConcurrency, CountersNeverGoBackWhileRulesChangeAndTextsAreRead) {
  const std::array rules = {rules_named("a"), rules_named("b")};
  const std::array<std::string, 3> series = {
      "sluice_requests_total{rule=\"stays\",outcome=\"allowed\",reason=\"ok\"}",
      "sluice_decisions_total{rule=\"stays\",limit=\"l\",outcome=\"allowed\",reason=\"ok\"}",
      "sluice_request_duration_seconds_count{front_end=\"auth\"}"};
  Registry registry;
  std::atomic<int> running = kThreads;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, &recorder = registry.make_recorder()] {
      follow_and_count(recorder, rules);
      --running;
    });
  }
  std::array<double, 3> last{-1, -1, -1};
  for (bool done = false; !done;) {
    done = running == 0;
    const std::string text = registry.text();
    for (std::size_t i = 0; i < series.size(); ++i) {
      const double value = value_of(text, series[i]);
      EXPECT_GE(value, last[i]) << series[i];
      last[i] = value;
    }
  }
  for (auto& thread : threads) thread.join();
  for (const double value : last) EXPECT_EQ(value, kThreads * kRounds * kCountsPerRound);
}

}  // namespace
}  // namespace sluice::metrics
