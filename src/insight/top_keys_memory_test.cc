#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "insight/key_sketch.h"
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

// What malloc may round up: of each allocation.
constexpr std::size_t kRounding = 24;

TEST(KeyHistoryMemory, StaysWithinItsBound) {
  using namespace std::chrono_literals;
  KeyHistory history;
  std::uint64_t key = 0;
  const std::size_t kept = testing::count_kept_bytes([&] {
    for (Duration now = 0s; now < 30h; now += 5min) {
      for (int part = 0; part < 6; ++part) {
        KeySketch sketch(KeyFrame::kMostKeys);
        for (int i = 0; i < 300; ++i) sketch.add(++key * 0x9E3779B97F4A7C15, "some-user-key");
        history.add(KeyFrame(sketch), now + part * 10s);
      }
    }
  });
  EXPECT_GT(kept, 6 * KeyFrame::kMostBytes / 2);
  EXPECT_LE(kept, 18 * (KeyFrame::kMostBytes + 2 * kRounding));
  // The sketches of all loops, for asked and denied, twice; and the two histories.
  KeySketch sketch(KeyFrame::kMostKeys);
  const std::size_t of_sketch = testing::count_kept_bytes([&] {
    for (std::uint64_t i = 0; i <= KeyFrame::kMostKeys; ++i) sketch.add(i, "k");
  });
  EXPECT_GT(of_sketch, 100 * KeyFrame::kMostKeys);
  EXPECT_LE(of_sketch, 120 * KeyFrame::kMostKeys + 5 * kRounding);
  EXPECT_LE(4 * 4 * (sizeof sketch + of_sketch) + 2 * (sizeof history + 18 * KeyFrame::kMostBytes),
            1'000'000U);
}

TEST(KeyFrameMemory, StaysWithinItsBoundWithLongTexts) {
  KeySketch sketch(KeyFrame::kMostKeys);
  for (std::uint64_t key = 0; key < KeyFrame::kMostKeys; ++key) {
    sketch.add(key, std::string(kLongestText, 'k'));
  }
  KeyFrame frame;
  const std::size_t kept = testing::count_kept_bytes([&] { frame = KeyFrame(sketch); });
  EXPECT_GT(kept, KeyFrame::kMostBytes / 2);
  EXPECT_LE(kept, KeyFrame::kMostBytes + 2 * kRounding);
}

}  // namespace
}  // namespace sluice::insight
