#include "replay/replay.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;

Instant second(std::int64_t count) { return Instant{std::chrono::seconds{count}}; }

std::uint64_t sum(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

TEST(TimeSeries, CountsBySecondsAtFirst) {
  TimeSeries series(2);
  series.advance(second(100));
  series.add(0);
  series.add(1);
  series.advance(second(100) + 999'999us);
  series.add(0);
  series.advance(second(102));
  series.add(0);
  EXPECT_EQ(series.width(), 1s);
  EXPECT_EQ(series.start(), second(100));
  EXPECT_EQ(series.channel(0), (std::vector<std::uint64_t>{2, 0, 1}));
  EXPECT_EQ(series.channel(1), (std::vector<std::uint64_t>{1, 0, 0}));
}

TEST(TimeSeries, KeepsItsMemoryBoundedAndEveryCount) {
  TimeSeries series(1);
  std::mt19937 random(7);
  Instant at = second(1'455'944'445);
  std::uint64_t added = 0;
  while (at < Instant{Duration{std::int64_t{1} << 52}} - std::chrono::days{400}) {
    series.advance(at);
    series.add(0);
    ++added;
    ASSERT_LE(series.buckets(), TimeSeries::kMostBuckets);
    at += std::chrono::seconds{random() % (1 + added * added)};
  }
  EXPECT_GT(added, 1000u);
  EXPECT_EQ(sum(series.channel(0)), added);
}

TEST(TimeSeries, CountsEveryRequestInTheColumnOfItsInstant) {
  TimeSeries series(1);
  std::vector<Instant> instants;
  for (std::int64_t i = 0; i < 3000; ++i) instants.push_back(second(1000 + i * 97));
  for (const Instant at : instants) {
    series.advance(at);
    series.add(0);
  }
  const TimeSeries wide = series.in_columns(50);
  ASSERT_LE(wide.buckets(), 50u);
  EXPECT_EQ(wide.start().time_since_epoch() % wide.width(), 0s);
  std::vector<std::uint64_t> naive(wide.buckets());
  for (const Instant at : instants) {
    ++naive[static_cast<std::size_t>((at - wide.start()) / wide.width())];
  }
  EXPECT_EQ(wide.channel(0), naive);
}

TEST(TimeSeries, IsEmptyAtFirst) {
  const TimeSeries series(3);
  EXPECT_EQ(series.buckets(), 0u);
  EXPECT_EQ(series.in_columns(10).buckets(), 0u);
  EXPECT_TRUE(series.channel(2).empty());
}

}  // namespace
}  // namespace sluice::replay
