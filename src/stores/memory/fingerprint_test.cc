#include "stores/memory/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace sluice::memory {
namespace {

constexpr Algorithm kAllAlgorithms[] = {Algorithm::kFixedWindow,
                                        Algorithm::kSlidingWindowLog,
                                        Algorithm::kSlidingWindowCounter,
                                        Algorithm::kSlidingWindowHybrid,
                                        Algorithm::kLeakyBucket,
                                        Algorithm::kTokenBucket,
                                        Algorithm::kGcra};

TEST(Fingerprint, IsTheSameForTheSameCounter) {
  const FingerprintMaker make;
  EXPECT_EQ(make("", "key", Algorithm::kGcra), make("", std::string("key"), Algorithm::kGcra));
}

TEST(Fingerprint, DependsOnTheAlgorithm) {
  const FingerprintMaker make;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const Algorithm algorithm : kAllAlgorithms) {
    const Fingerprint f = make("", "key", algorithm);
    seen.emplace(f.low, f.high);
  }
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Fingerprint, DependsOnTheKeyspace) {
  const FingerprintMaker make;
  for (const Algorithm algorithm : kAllAlgorithms) {
    EXPECT_FALSE(make("", "key", algorithm) == make("", "key", algorithm, Keyspace::kRules));
  }
}

TEST(Fingerprint, DependsOnEveryByteAndTheLength) {
  const FingerprintMaker make;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  std::size_t made = 0;
  const auto add = [&](std::string_view key) {
    const Fingerprint f = make("", key, Algorithm::kGcra);
    EXPECT_NE(f.low, 0u);
    seen.emplace(f.low, f.high);
    ++made;
  };
  for (std::size_t length : {0u, 1u, 2u, 3u, 4u, 8u, 9u, 16u, 17u, 128u, 129u, 240u, 241u, 1000u}) {
    std::string key(length, '\0');
    add(key);
    for (char& byte : key) {
      byte = 1;
      add(key);
      byte = 0;
    }
  }
  EXPECT_EQ(seen.size(), made);
}

TEST(Fingerprint, DependsOnTheTagAndItsEnd) {
  const FingerprintMaker make;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  const std::pair<std::string_view, std::string_view> names[] = {
      {"", "key"}, {"k", "ey"}, {"ke", "y"}, {"key", ""}, {"key", "key"}, {"other", "key"}};
  for (const auto& [tag, key] : names) {
    const Fingerprint f = make(tag, key, Algorithm::kGcra);
    seen.emplace(f.low, f.high);
  }
  EXPECT_EQ(seen.size(), std::size(names));
}

TEST(Fingerprint, IsTheSameForANullAndAnEmptyKey) {
  const FingerprintMaker make;
  EXPECT_EQ(make("", std::string_view(), Algorithm::kGcra), make("", "", Algorithm::kGcra));
}

TEST(Fingerprint, DependsOnTheSecretOfItsMaker) {
  const FingerprintMaker one;
  const FingerprintMaker other;
  EXPECT_FALSE(one("", "key", Algorithm::kGcra) == other("", "key", Algorithm::kGcra));
}

}  // namespace
}  // namespace sluice::memory
