#include "replay/suggest.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace sluice::replay {
namespace {

TEST(PeakCode, IsExactUpTo4096AndRoundsUpAbove) {
  for (std::uint64_t units = 0; units <= 4096; ++units) {
    ASSERT_EQ(units_of(peak_code(units)), units);
  }
  PeakCode last = peak_code(4096);
  for (std::uint64_t units = 4097; units < kMostUnits; units += 1 + units / 3000) {
    const PeakCode code = peak_code(units);
    ASSERT_GE(code, last) << units;
    ASSERT_LT(code, kPeakCodes);
    ASSERT_GE(units_of(code), units);
    ASSERT_LE(units_of(code) - units, units / 2048) << units;
    ASSERT_EQ(peak_code(units_of(code)), code) << units;
    last = code;
  }
  EXPECT_EQ(units_of(peak_code(kMostUnits)), kMostUnits);
  EXPECT_EQ(peak_code(kMostUnits + 1), peak_code(kMostUnits));
}

TEST(Peaks, KeepWhatIsSetWhileTheyGrow) {
  Peaks peaks(3);
  std::unordered_map<std::uint64_t, PeakCode> expected;
  std::mt19937_64 random(1);
  for (int i = 0; i < 50'000; ++i) {
    const std::uint64_t hash = i % 3 == 0 && !expected.empty() ? expected.begin()->first : random();
    const auto value = static_cast<PeakCode>(random());
    const bool is_new = expected.find(hash) == expected.end();
    const auto found = peaks.of(peaks.number_of(hash));
    ASSERT_EQ(found.size(), 3u);
    ASSERT_EQ(found[1], is_new ? 0 : expected[hash]);
    expected[hash] = found[1] = value;
  }
  ASSERT_EQ(peaks.keys(), expected.size());
  for (const auto& [hash, value] : expected) {
    ASSERT_EQ(peaks.of(peaks.number_of(hash))[1], value);
  }
}

TEST(Peaks, TakeAtMost40BytesForAKeyWithThreePeriods) {
  Peaks peaks(9);
  std::mt19937_64 random(2);
  for (std::size_t keys = 1; keys <= 300'000; ++keys) {
    peaks.number_of(random());
    if (keys < 20'000) continue;
    ASSERT_LE(peaks.bytes(), keys * 40) << keys;
  }
}

}  // namespace
}  // namespace sluice::replay
