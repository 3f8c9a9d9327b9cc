#include "replay/suggest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "replay/replay.h"
#include "replay/test_logs.h"
#include "tests/support/random_cases.h"

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;

// A log of a few hours with bursts, pauses and regular clients, with microseconds.
std::string random_log(unsigned seed, int keys) {
  std::mt19937 random(seed);
  const auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  std::int64_t now = 1'795'428'000'000'000 + pick(1'000'000);
  std::string text = "time,ip,path\n";
  for (int i = 0; i < 12'000; ++i) {
    const unsigned gaps[] = {0, 1, 1000, 100'000, 1'000'000, 3'000'000};
    now += pick(1 + gaps[pick(6)]);
    if (pick(2000) == 0) now += 3'600'000'000;
    const unsigned key = pick(pick(3) == 0 ? 3 : static_cast<unsigned>(keys));
    text += std::to_string(now) + ",10.0.0." + std::to_string(key) + ",/a\n";
  }
  return text;
}

class Suggest : public ::testing::Test {
 protected:
  SuggestReport suggest_for(const std::string& text) {
    options_.logs = {files_.write("log", text)};
    return suggest(rules_of(suggested_rules(options_, {})), options_);
  }
  static RuleSet rules_of(const std::string& yaml) {
    auto rules = RuleSet::parse(yaml, "suggested");
    if (!rules) throw std::runtime_error(rules.error().front().to_string());
    return *rules;
  }
  // Replays the log with the rules.
  ReplayReport replay_with(const RuleSet& rules) {
    ReplayOptions options;
    options.logs = options_.logs;
    options.fields = options_.fields;
    return replay(rules, options);
  }

  // Replays the log with the suggested limits: at most this share of the keys is denied, and
  // exactly what the suggestions say.
  void expect_harm(const SuggestReport& report, double harm) {
    const auto limits = suggestions(report, harm);
    const RuleSet rules = rules_of(suggested_rules(options_, limits));
    const ReplayReport replayed = replay_with(rules);
    ASSERT_EQ(replayed.tally.rules.size(), limits.size());
    for (std::size_t i = 0; i < limits.size(); ++i) {
      expect_denials(replayed.tally.rules[i].limits[0], limits[i]);
      EXPECT_LE(static_cast<double>(limits[i].keys_denied),
                harm * static_cast<double>(report.keys));
    }
  }
  static void expect_denials(const LimitTally& limit, const Suggestion& suggestion) {
    const std::string& name = limit.limit->name;
    EXPECT_EQ(limit.keys.keys_denied(), suggestion.keys_denied) << name;
    EXPECT_LE(limit.denied, suggestion.requests_denied) << name;
    if (suggestion.curve->algorithm != Algorithm::kFixedWindow) return;
    EXPECT_EQ(limit.denied, suggestion.requests_denied) << name;
  }

  TemporaryFiles files_;
  SuggestOptions options_ = [] {
    SuggestOptions options;
    options.periods = {1s, 1min, 1h};
    return options;
  }();
};

TEST_F(Suggest, LimitsDenyExactlyTheStatedKeysInAReplay) {
  for (unsigned seed = 1; seed <= sluice::testing::random_cases(1, 3); ++seed) {
    options_.rate = seed * 7;
    const SuggestReport report = suggest_for(random_log(seed, 200));
    for (const double harm : {0.0, 0.01, 0.1, 0.5}) expect_harm(report, harm);
  }
}

TEST_F(Suggest, SmallerLimitsWouldDenyMoreKeys) {
  const SuggestReport report = suggest_for(random_log(4, 100));
  constexpr double kHarm = 0.05;
  auto limits = suggestions(report, kHarm);
  for (Suggestion& each : limits) {
    ASSERT_GT(each.limit, 1u);
    --each.limit;
  }
  const ReplayReport replayed = replay_with(rules_of(suggested_rules(options_, limits)));
  for (const RuleTally& rule : replayed.tally.rules) {
    EXPECT_GT(static_cast<double>(rule.limits[0].keys.keys_denied()),
              kHarm * static_cast<double>(report.keys))
        << rule.rule->name;
  }
}

TEST_F(Suggest, CountsUnitsThatTheLogGives) {
  options_.periods = {1s};
  options_.fields = {{"cost", "units"}};
  const SuggestReport report = suggest_for("time,ip,units\n1,a,70\n1,a,30\n3,b,10\n3,b,0\n");
  const auto limits = suggestions(report, 0.5);
  EXPECT_EQ(report.keys, 2u);
  EXPECT_EQ(limits[0].limit, 10u);
  EXPECT_EQ(limits[0].keys_denied, 1u);
  EXPECT_EQ(suggestions(report, 0)[0].limit, 100u);
}

TEST_F(Suggest, FollowsATimeThatGoesBack) {
  const SuggestReport report = suggest_for("time,ip\n10,a\n5,a\n10,a\n");
  EXPECT_EQ(suggestions(report, 0)[0].limit, 3u) << "the late line is decided at the latest time";
}

TEST_F(Suggest, SaysNothingAboutAnEmptyLog) {
  const SuggestReport report = suggest_for("time,ip\n");
  EXPECT_EQ(report.keys, 0u);
  EXPECT_EQ(suggestions(report, 0.1)[0].limit, 1u);
  EXPECT_EQ(suggest_text(report, 0.1).find("fixed_window"), std::string::npos);
  EXPECT_TRUE(suggest_html(report, 0.1).starts_with("<!DOCTYPE html>"));
}

TEST_F(Suggest, ShowsMarkupOfKeysAsText) {
  options_.key = "<b>{ip}";
  const SuggestReport report = suggest_for("time,ip\n1,a\n");
  EXPECT_EQ(suggest_html(report, 0).find("<b>"), std::string::npos);
  EXPECT_EQ(rules_of(suggested_rules(options_, suggestions(report, 0))).rules().size(), 9u);
}

}  // namespace
}  // namespace sluice::replay
