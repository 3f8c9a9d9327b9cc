#include <gtest/gtest.h>

#include <string_view>

#include "insight/top_keys.h"
#include "sluice/testing/manual_clock.h"
#include "tests/support/allocations.h"

// A program of its own: its operator new is not that of ThreadSanitizer.
namespace sluice::insight {
namespace {

TEST(TopKeysMemory, WhatThereIsNoMemoryForIsLost) {
  const RuleSet rules =
      RuleSet::parse(
          "version: 1\nrules:\n  - name: api\n    limits:\n"
          "      - { name: user, key: \"{ip}\", algorithm: gcra, limit: 1, per: 1s }\n",
          "test")
          .value();
  const testing::ManualClock clock;
  const KeyHash hash;
  TopKeys keys({}, hash, clock);
  KeyRecorder& recorder = keys.make_recorder();
  const auto count = [&](std::string_view label) {
    RuleAnswer answer;
    answer.rule = &rules.rules()[0];
    answer.limits.push_back({answer.rule, &answer.rule->limits[0], {}, label, Decision()});
    recorder.count(answer);
  };
  recorder.use(rules);
  count("a");
  testing::without_memory(1, [&] { recorder.hand_over(); });
  recorder.hand_over();
  testing::without_memory(1, [&] { keys.collect(rules); });
  count("b");
  recorder.hand_over();
  keys.collect(rules);
  const auto asked = keys.top({.by = TopBy::kAsked, .over = Span::kMinute});
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].total, 1U);
  EXPECT_EQ(asked[0].keys[0].text, "b");
}

}  // namespace
}  // namespace sluice::insight
