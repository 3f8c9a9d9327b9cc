#include "replay/replay.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace sluice::replay::tally_test {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kRules = R"(version: 1
domain: test
rules:
  - name: first
    continue: true
    limits:
      - { name: user, key: "{user}", algorithm: fixed_window, limit: 1, per: 1h }
  - name: second
    mode: shadow
    limits:
      - { name: all, algorithm: fixed_window, limit: 1, per: 1h }
)";

RuleSet rules() {
  auto parsed = RuleSet::parse(kRules, "test.yaml");
  if (!parsed) throw std::runtime_error(parsed.error().front().to_string());
  return *parsed;
}

Instant at(int seconds) { return Instant{} + std::chrono::seconds{seconds}; }

LimitAnswer answer_for(std::string_view key, Outcome outcome) {
  LimitAnswer answer;
  answer.counter = key;
  answer.label = key;
  answer.decision.outcome = outcome;
  return answer;
}

TEST(KeyTally, CountsTheRequestsAndDenialsOfEachKey) {
  KeyTally tally(10);
  tally.count(answer_for("a", Outcome::kAllowed), LogLine{}, at(1));
  tally.count(answer_for("b", Outcome::kDenied), LogLine{}, at(2));
  tally.count(answer_for("b", Outcome::kAllowed), LogLine{}, at(3));
  tally.count(answer_for("b", Outcome::kDenied), LogLine{}, at(4));
  EXPECT_EQ(tally.keys(), 2u);
  EXPECT_EQ(tally.keys_denied(), 1u);
  const std::vector<DeniedKey> most = tally.most_denied(5);
  ASSERT_EQ(most.size(), 1u);
  EXPECT_EQ(most[0].label, "b");
  EXPECT_EQ(most[0].requests, 3u);
  EXPECT_EQ(most[0].denied, 2u);
  EXPECT_EQ(most[0].first, at(2));
  EXPECT_EQ(most[0].last, at(4));
}

TEST(KeyTally, OrdersKeysByDenialsAndThenByLabel) {
  KeyTally tally(10);
  for (const char* key : {"c", "b", "a", "b"}) {
    tally.count(answer_for(key, Outcome::kDenied), LogLine{}, at(1));
  }
  const std::vector<DeniedKey> most = tally.most_denied(2);
  ASSERT_EQ(most.size(), 2u);
  EXPECT_EQ(most[0].label, "b");
  EXPECT_EQ(most[1].label, "a");
}

TEST(KeyTally, StopsAddingKeysAtItsBoundAndReportsIt) {
  KeyTally tally(2);
  for (const char* key : {"a", "b"})
    tally.count(answer_for(key, Outcome::kDenied), LogLine{}, at(1));
  EXPECT_FALSE(tally.overflowed());
  tally.count(answer_for("c", Outcome::kDenied), LogLine{}, at(2));
  EXPECT_TRUE(tally.overflowed());
  EXPECT_EQ(tally.keys(), 2u);
  tally.count(answer_for("a", Outcome::kDenied), LogLine{}, at(3));  // known keys are still counted
  EXPECT_EQ(tally.most_denied(1)[0].denied, 2u);
}

TEST(KeyTally, ShortensLongLabels) {
  KeyTally tally(2);
  tally.count(answer_for(std::string(KeyTally::kLongestLabel + 5, 'x'), Outcome::kDenied),
              LogLine{}, at(1));
  EXPECT_EQ(tally.most_denied(1)[0].label, std::string(KeyTally::kLongestLabel, 'x'));
}

TEST(Tally, AttributesRequestsToRulesAndChannels) {
  const RuleSet set = rules();
  Tally tally(set, 10);
  const Rule& first = set.rules()[0];
  const Rule& second = set.rules()[1];

  RuleAnswer answer;
  LimitAnswer user = answer_for("u", Outcome::kDenied);
  user.rule = &first;
  user.limit = &first.limits[0];
  answer.limits = {user};
  answer.matched = {{&first, true}, {&second, true}};
  answer.decision.outcome = Outcome::kDenied;
  answer.decision.reason = Reason::kLimited;
  tally.count(answer, LogLine{}, at(0));

  RuleAnswer unmatched;
  tally.count(unmatched, LogLine{}, at(1));

  RuleAnswer in_shadow;
  in_shadow.matched = {{&second, true}};
  in_shadow.decision.outcome = Outcome::kAllowed;
  tally.count(in_shadow, LogLine{}, at(2));

  EXPECT_EQ(tally.requests, 3u);
  EXPECT_EQ(tally.denied, 1u);
  EXPECT_EQ(tally.would_deny, 1u) << "an enforced rule denies the first";
  EXPECT_EQ(tally.series().at(0, Tally::kWouldDeny), 0u);
  EXPECT_EQ(tally.series().at(2, Tally::kWouldDeny), 1u);
  EXPECT_EQ(tally.unmatched, 1u);
  EXPECT_EQ(tally.rules[0].matched, 1u);
  EXPECT_EQ(tally.rules[0].denied, 1u);
  EXPECT_EQ(tally.rules[0].limits[0].requests, 1u);
  EXPECT_EQ(tally.rules[0].limits[0].denied, 1u);
  EXPECT_EQ(tally.rules[1].denied, 2u);  // in shadow mode: would have denied
  EXPECT_EQ(tally.series().at(0, Tally::kRequests), 1u);
  EXPECT_EQ(tally.series().at(0, Tally::kDenied), 1u);
  EXPECT_EQ(tally.series().at(1, Tally::kRequests), 1u);
  EXPECT_EQ(tally.series().at(1, Tally::kDenied), 0u);
  EXPECT_EQ(tally.series().at(0, Tally::rule_channel(1)), 1u);
}

}  // namespace
}  // namespace sluice::replay::tally_test
