#include "insight/key_sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

namespace sluice::insight {
namespace {

std::string text_of(std::uint64_t key) { return "user-" + std::to_string(key); }

// Returns key numbers of which small ones are frequent.
std::uint64_t skewed(std::mt19937_64& random) {
  const double u = std::uniform_real_distribution<double>(0, 1)(random);
  return static_cast<std::uint64_t>(std::exp(u * 11));
}

TEST(KeyFrame, KeepsItsBoundsOverManySums) {
  constexpr std::size_t kMost = 64;
  std::mt19937_64 random{3};
  std::map<std::uint64_t, std::uint64_t> exact;
  KeyFrame sum;
  std::uint64_t total = 0;
  for (int part = 0; part < 60; ++part) {
    KeySketch sketch(kMost);
    for (int i = 0; i < 2000; ++i, ++total) {
      const std::uint64_t key = skewed(random);
      sketch.add(key, text_of(key));
      ++exact[key];
    }
    sum.add(KeyFrame(sketch, kMost), kMost);
  }
  EXPECT_EQ(sum.total(), total);
  EXPECT_EQ(sum.size(), kMost);
  EXPECT_LE(sum.floor(), total / kMost);
  for (const CountedKey& key : sum.top(kMost)) {
    EXPECT_EQ(key.text, text_of(key.hash));
    EXPECT_LE(exact.at(key.hash), key.count) << key.text;
    EXPECT_GE(exact.at(key.hash), key.count - key.error) << key.text;
    EXPECT_LE(key.error, total / kMost);
    exact.erase(key.hash);
  }
  for (const auto& [key, count] : exact) EXPECT_LE(count, sum.floor()) << key;
}

TEST(KeyFrame, OrdersByCount) {
  KeySketch sketch(8);
  for (std::uint64_t key = 0; key < 4; ++key) {
    for (std::uint64_t i = 0; i <= key; ++i) sketch.add(key, text_of(key));
  }
  const KeyFrame frame(sketch);
  const auto top = frame.top(2);
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].text, "user-3");
  EXPECT_EQ(top[0].count, 4U);
  EXPECT_EQ(top[1].text, "user-2");
}

TEST(KeyFrame, OrdersByWhatIsCertain) {
  KeySketch full(1), other(1);
  for (int i = 0; i < 9; ++i) full.add(1, "sure");
  for (int i = 0; i < 8; ++i) other.add(2, "first");
  for (int i = 0; i < 20; ++i) other.add(3, "last");
  KeyFrame frame(full, 2);
  frame.add(KeyFrame(other, 2), 2);
  const auto top = frame.top(2);
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].text, "last");
  EXPECT_EQ(top[0].count - top[0].error, 12U);
  EXPECT_EQ(top[1].count - top[1].error, 9U);
  EXPECT_LT(top[0].count, top[1].count);
}

TEST(KeyFrame, KeepsFewerKeysWithLongTexts) {
  KeySketch sketch(KeyFrame::kMostKeys);
  for (std::uint64_t key = 0; key < KeyFrame::kMostKeys; ++key) {
    sketch.add(key, std::string(kLongestText, 'k'));
    if (key < 10) sketch.add(key, {});
  }
  const KeyFrame frame(sketch);
  EXPECT_GT(frame.size(), 90U);
  EXPECT_EQ(frame.floor(), 1U);
  for (const CountedKey& key : frame.top(10)) EXPECT_EQ(key.count, 2U);
}

}  // namespace
}  // namespace sluice::insight
