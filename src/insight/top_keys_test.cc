#include "insight/top_keys.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <string>
#include <thread>

#include "sluice/testing/manual_clock.h"

namespace sluice::insight {
namespace {

using namespace std::chrono_literals;

RuleSet rules_named(const std::string& name) {
  return RuleSet::parse(
             "version: 1\nrules:\n  - name: stays\n    limits:\n"
             "      - { name: user, key: \"{ip}\", algorithm: gcra, limit: 1, per: 1s }\n"
             "      - { name: all, algorithm: gcra, limit: 1, per: 1s }\n  - name: " +
                 name + "\n    limits: [{ name: l, algorithm: gcra, limit: 1, per: 1s }]\n",
             "test")
      .value();
}

// An answer of one limit.
RuleAnswer answer_of(const RuleSet& rules, std::size_t rule, std::size_t limit,
                     std::string_view label, bool denied = false) {
  RuleAnswer answer;
  answer.rule = &rules.rules()[rule];
  Decision decision;
  if (denied) decision.outcome = Outcome::kDenied;
  answer.limits.push_back({answer.rule, &answer.rule->limits[limit], {}, label, decision});
  return answer;
}

class TopKeysTest : public ::testing::Test {
 protected:
  std::vector<TopLimit> top(TopBy by = TopBy::kAsked, Span over = Span::kMinute) {
    recorder_.hand_over();
    keys_.collect(rules_);
    return keys_.top({.by = by, .over = over});
  }

  testing::ManualClock clock_;
  KeyHash hash_;
  TopKeys keys_{{}, hash_, clock_};
  KeyRecorder& recorder_ = keys_.make_recorder();
  RuleSet rules_ = rules_named("other");
};

TEST_F(TopKeysTest, CountsWhatWasAskedAndWhatWasDenied) {
  recorder_.use(rules_);
  for (int i = 0; i < 3; ++i) recorder_.count(answer_of(rules_, 0, 0, "a"));
  recorder_.count(answer_of(rules_, 0, 0, "b", true));
  recorder_.count(answer_of(rules_, 0, 1, ""));
  const auto asked = top();
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].limit, "all");
  EXPECT_EQ(asked[0].total, 1U);
  EXPECT_TRUE(asked[0].keys.empty());
  EXPECT_EQ(asked[1].total, 4U);
  ASSERT_EQ(asked[1].keys.size(), 2U);
  EXPECT_EQ(asked[1].keys[0].text, "a");
  EXPECT_EQ(asked[1].keys[0].count, 3U);
  const auto denied = top(TopBy::kDenied);
  ASSERT_EQ(denied.size(), 1U);
  ASSERT_EQ(denied[0].keys.size(), 1U);
  EXPECT_EQ(denied[0].keys[0].text, "b");
  EXPECT_EQ(denied[0].keys[0].error, 0U);
  EXPECT_TRUE(keys_.top({.rule = "stays", .limit = "none"}).empty());
  EXPECT_EQ(keys_.top({.by = TopBy::kAsked, .rule = "stays", .limit = "user", .most = 1})[0].keys,
            keys_.top({.by = TopBy::kAsked, .rule = "stays", .most = 1})[1].keys);
}

TEST_F(TopKeysTest, SumsOverLoops) {
  KeyRecorder& other = keys_.make_recorder();
  for (KeyRecorder* one : {&recorder_, &other}) {
    one->use(rules_);
    one->count(answer_of(rules_, 0, 0, "a"));
    one->hand_over();
  }
  EXPECT_EQ(top()[0].keys[0].count, 2U);
}

TEST_F(TopKeysTest, KeepsCountsWhileRulesChangeAndForgetsOldRules) {
  recorder_.use(rules_);
  recorder_.count(answer_of(rules_, 0, 0, "a"));
  recorder_.count(answer_of(rules_, 1, 0, "x"));
  EXPECT_EQ(top().size(), 2U);
  recorder_.count(answer_of(rules_, 0, 0, "a"));
  const RuleSet old = rules_;
  rules_ = rules_named("new");
  recorder_.use(rules_);
  const auto kept = top();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].total, 2U);
}

TEST_F(TopKeysTest, CountsRequestsThatHaveWaitedWhileTheRulesChanged) {
  const RuleSet old = rules_;
  rules_ = rules_named("new");
  recorder_.use(rules_);
  recorder_.count(answer_of(old, 0, 1, ""));
  recorder_.count(answer_of(old, 0, 0, "a", true));
  recorder_.count(answer_of(old, 1, 0, "of a rule that is no longer there"));
  EXPECT_EQ(top().size(), 2U);
  const auto denied = top(TopBy::kDenied);
  ASSERT_EQ(denied.size(), 1U);
  EXPECT_EQ(denied[0].limit, "user");
  EXPECT_EQ(denied[0].keys[0].text, "a");
}

TEST_F(TopKeysTest, CountsLimitsOfRequestsByTheirAlgorithm) {
  recorder_.count(gcra(1).per(1s), "before use()", {});
  recorder_.use(rules_);
  recorder_.count(gcra(1).per(1s), "a", {});
  recorder_.count(gcra(7).per(1min), "a", {.outcome = Outcome::kDenied});
  recorder_.count(token_bucket(1).per(1s), "b", {});
  rules_ = rules_named("new");
  recorder_.use(rules_);
  recorder_.count(gcra(1).per(1s), "a", {});
  const auto asked = top();
  ASSERT_EQ(asked.size(), 2U) << "kept while rules change";
  EXPECT_EQ(asked[0].rule, "");
  EXPECT_EQ(asked[0].limit, "gcra");
  ASSERT_EQ(asked[0].keys.size(), 1U);
  EXPECT_EQ(asked[0].keys[0].text, "a");
  EXPECT_EQ(asked[0].keys[0].count, 3U);
  EXPECT_EQ(asked[1].limit, "token_bucket");
  ASSERT_EQ(top(TopBy::kDenied).size(), 1U);
  EXPECT_EQ(top(TopBy::kDenied)[0].total, 1U);
}

TEST_F(TopKeysTest, CountsOnWhileTheCollectorIsLate) {
  recorder_.use(rules_);
  for (int i = 0; i < 3; ++i) {
    recorder_.count(answer_of(rules_, 0, 0, "a"));
    recorder_.hand_over();
  }
  EXPECT_EQ(top()[0].total, 1U);
  EXPECT_EQ(top()[0].total, 3U);
}

TEST_F(TopKeysTest, CollectsInParts) {
  recorder_.use(rules_);
  recorder_.count(answer_of(rules_, 0, 0, "a"));
  recorder_.count(answer_of(rules_, 1, 0, "a"));
  recorder_.hand_over();
  EXPECT_TRUE(keys_.collect(rules_, 1));
  EXPECT_FALSE(keys_.collect(rules_, 1));
}

TEST_F(TopKeysTest, StandStillWhenTheClockStepsBack) {
  recorder_.use(rules_);
  recorder_.count(answer_of(rules_, 0, 0, "a"));
  EXPECT_EQ(top().size(), 1U);
  clock_.advance(-24h);
  EXPECT_EQ(top().size(), 1U);
  clock_.advance(61s);
  EXPECT_TRUE(top().empty());
  EXPECT_EQ(top(TopBy::kAsked, Span::kHour).size(), 1U);
  EXPECT_EQ(keys_.covered(Span::kHour), 61s);
}

TEST_F(TopKeysTest, ShowHashesIfAskedTo) {
  TopKeys keys({.hashed = true}, hash_, clock_);
  KeyRecorder& recorder = keys.make_recorder();
  recorder.use(rules_);
  recorder.count(answer_of(rules_, 0, 0, "secret"));
  recorder.hand_over();
  keys.collect(rules_);
  EXPECT_EQ(keys.top({.by = TopBy::kAsked})[0].keys[0].text, KeyHash::text(hash_("secret")));
}

TEST(TopKeysOfManyLimits, CountFewerKeysOfEach) {
  std::string text = "version: 1\nrules:\n";
  for (int i = 0; i < 2048; ++i) {
    text += "  - { name: r" + std::to_string(i) +
            ", limits: [{ key: \"{ip}\", algorithm: gcra, limit: 1, per: 1s }] }\n";
  }
  const RuleSet rules = RuleSet::parse(text, "test").value();
  const KeyHash hash;
  TopKeys keys({}, hash);
  KeyRecorder& recorder = keys.make_recorder();
  recorder.use(rules);
  for (int i = 0; i < 1000; ++i) recorder.count(answer_of(rules, 7, 0, std::to_string(i)));
  recorder.hand_over();
  keys.collect(rules);
  const auto limits = keys.top({.by = TopBy::kAsked, .most = 256});
  ASSERT_EQ(limits.size(), 1U);
  EXPECT_EQ(limits[0].total, 1000U);
  EXPECT_EQ(limits[0].keys.size(), 32U);
}

// Under ThreadSanitizer, this shows that loops and collector need no further lock.
TEST(TopKeysConcurrency, LosesNothingWhileItIsCollected) {
  constexpr int kThreads = 3, kRounds = 300, kCounts = 40;
  const KeyHash hash;
  TopKeys keys({.loops = kThreads}, hash);
  const std::vector<RuleSet> rules = {rules_named("a"), rules_named("b")};
  std::atomic<int> running = kThreads;
  std::deque<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, &recorder = keys.make_recorder()] {
      for (int round = 0; round < kRounds; ++round) {
        const RuleSet& now = rules[static_cast<std::size_t>(round / 50 % 2)];
        recorder.use(now);
        for (int n = 0; n < kCounts; ++n) {
          recorder.count(answer_of(now, 0, 0, std::to_string(n % 7), true));
        }
        recorder.hand_over();
      }
      recorder.use(rules_named("end"));
      --running;
    });
  }
  const RuleSet active = rules_named("end");
  while (running > 0) {
    keys.collect(active, 2);
    static_cast<void>(keys.top({}));
  }
  for (std::thread& thread : threads) thread.join();
  keys.collect(active);
  const auto limits = keys.top({.rule = "stays", .limit = "user"});
  ASSERT_EQ(limits.size(), 1U);
  EXPECT_EQ(limits[0].total, std::uint64_t{kThreads * kRounds * kCounts});
  EXPECT_EQ(limits[0].keys.size(), 7U);
}

}  // namespace
}  // namespace sluice::insight
