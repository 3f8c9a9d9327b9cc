#include "insight/key_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace sluice::insight {
namespace {

std::uint64_t hash_of(std::uint64_t key) { return key * 0x9E3779B97F4A7C15; }

// Keys of a Zipf distribution: key k comes about 1 / (k + 1) as often as key 0.
class ZipfKeys {
 public:
  explicit ZipfKeys(std::size_t keys) : sums_(keys) {
    double sum = 0;
    for (std::size_t i = 0; i < keys; ++i) sums_[i] = sum += 1.0 / static_cast<double>(i + 1);
  }
  std::uint64_t next() {
    const double at = std::uniform_real_distribution<double>(0, sums_.back())(random_);
    return static_cast<std::uint64_t>(std::lower_bound(sums_.begin(), sums_.end(), at) -
                                      sums_.begin());
  }

 private:
  std::vector<double> sums_;
  std::mt19937_64 random_{7};
};

using Counts = std::map<std::uint64_t, std::uint64_t>;  // by hash

void expect_bounds(const KeySketch& sketch, const Counts& exact, std::size_t most) {
  std::uint64_t sum = 0;
  for (const auto& [hash, count] : exact) sum += count;
  ASSERT_EQ(sketch.total(), sum);
  Counts absent = exact;
  for (std::size_t i = 0; i < sketch.size(); ++i) {
    const CountedKey key = sketch.at(i);
    const std::uint64_t truth = exact.at(key.hash);
    EXPECT_LE(truth, key.count);
    EXPECT_GE(truth, key.count - key.error);
    EXPECT_LE(key.error, sum / most);
    absent.erase(key.hash);
  }
  for (const auto& [hash, count] : absent) EXPECT_LE(count, sketch.floor());
  EXPECT_LE(sketch.floor(), sum / most);
}

TEST(KeySketch, IsExactWhileItsKeysFit) {
  KeySketch sketch(100);
  Counts exact;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t hash = hash_of(i * i % 100);
    sketch.add(hash, {});
    ++exact[hash];
  }
  for (std::size_t i = 0; i < sketch.size(); ++i) {
    EXPECT_EQ(sketch.at(i).count, exact.at(sketch.at(i).hash));
    EXPECT_EQ(sketch.at(i).error, 0U);
  }
  EXPECT_EQ(sketch.floor(), 0U);
}

TEST(KeySketch, KeepsItsBoundsOnAZipfStream) {
  for (const std::size_t most : {std::size_t{1}, std::size_t{8}, std::size_t{256}}) {
    KeySketch sketch(most);
    ZipfKeys keys(50'000);
    Counts exact;
    for (int i = 0; i < 200'000; ++i) {
      const std::uint64_t hash = hash_of(keys.next());
      sketch.add(hash, {});
      ++exact[hash];
    }
    EXPECT_EQ(sketch.size(), most);
    expect_bounds(sketch, exact, most);
  }
}

TEST(KeySketch, KeepsItsBoundsOnAStreamOfNewKeys) {
  KeySketch sketch(16);
  Counts exact;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    for (const std::uint64_t key : {i, std::uint64_t{1} << 40}) {
      sketch.add(hash_of(key), {});
      ++exact[hash_of(key)];
    }
  }
  expect_bounds(sketch, exact, 16);
}

TEST(KeySketch, CutsLongTextsAtACharacter) {
  KeySketch sketch(4);
  sketch.add(1, std::string(kLongestText, 'x'));
  sketch.add(2, std::string(kLongestText - 1, 'x') + "€");
  sketch.add(3, std::string(1 << 20, '\x80'));
  EXPECT_EQ(sketch.at(0).text, std::string(kLongestText, 'x'));
  EXPECT_FALSE(sketch.at(0).is_cut);
  EXPECT_EQ(sketch.at(1).text, std::string(kLongestText - 1, 'x'));
  EXPECT_TRUE(sketch.at(1).is_cut);
  EXPECT_GE(sketch.at(2).text.size(), kLongestText - 3);
}

TEST(KeySketch, IsEmptyAfterClear) {
  KeySketch sketch(2);
  for (std::uint64_t i = 0; i < 9; ++i) sketch.add(hash_of(i), "key");
  sketch.add_keyless();
  EXPECT_EQ(sketch.total(), 10U);
  sketch.clear();
  EXPECT_EQ(sketch.total(), 0U);
  EXPECT_EQ(sketch.size(), 0U);
  EXPECT_EQ(sketch.floor(), 0U);
  sketch.add(hash_of(3), "again");
  EXPECT_EQ(sketch.at(0).text, "again");
  EXPECT_EQ(sketch.at(0).count, 1U);
}

}  // namespace
}  // namespace sluice::insight
