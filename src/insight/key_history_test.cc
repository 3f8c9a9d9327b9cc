#include "insight/top_keys.h"

#include <gtest/gtest.h>

namespace sluice::insight {
namespace {

using namespace std::chrono_literals;

KeyFrame frame_of(std::uint64_t key, int count = 1) {
  KeySketch sketch(8);
  for (int i = 0; i < count; ++i) sketch.add(key, "k");
  return KeyFrame(sketch);
}

std::uint64_t total(const KeyHistory& history, Span span, Duration now) {
  return history.over(span, now).total();
}

TEST(KeyHistory, ForgetsAfterEachSpan) {
  KeyHistory history;
  history.add(frame_of(1), 0s);
  for (const Span span : {Span::kMinute, Span::kHour, Span::kDay}) {
    EXPECT_EQ(total(history, span, 0s), 1U);
  }
  EXPECT_EQ(total(history, Span::kMinute, 59s), 1U);
  EXPECT_EQ(total(history, Span::kMinute, 60s), 0U);
  EXPECT_EQ(total(history, Span::kHour, 3599s), 1U);
  EXPECT_EQ(total(history, Span::kHour, 1h), 0U);
  EXPECT_EQ(total(history, Span::kDay, 24h - 1s), 1U);
  EXPECT_FALSE(history.is_over(24h - 1s));
  EXPECT_EQ(total(history, Span::kDay, 24h), 0U);
  EXPECT_TRUE(history.is_over(24h));
}

TEST(KeyHistory, CountsEverythingInEachSpanOnce) {
  KeyHistory history;
  for (Duration now = 0s; now < 48h; now += 7s) {
    history.add(frame_of(1), now);
    if (now % 61 != 0s) continue;
    for (const Span span : {Span::kMinute, Span::kHour, Span::kDay}) {
      const auto from = now - KeyHistory::covered(span, now);
      const auto first = (from + 6999999us) / 7s;  // of those in the span
      const auto expected = static_cast<std::uint64_t>(now / 7s - first + 1);
      // A shorter frame belongs to the longer one in which it began.
      EXPECT_NEAR(static_cast<double>(total(history, span, now)), static_cast<double>(expected), 1)
          << now.count() << " span " << static_cast<int>(span);
    }
  }
}

TEST(KeyHistory, CoversFiveSixthsOfASpanToAllOfIt) {
  EXPECT_EQ(KeyHistory::covered(Span::kMinute, 3s), 3s);
  EXPECT_EQ(KeyHistory::covered(Span::kMinute, 100s), 50s);
  EXPECT_EQ(KeyHistory::covered(Span::kMinute, 109s), 59s);
  EXPECT_EQ(KeyHistory::covered(Span::kDay, 26h), 22h);
}

TEST(KeyHistory, SurvivesStepsOfTheClock) {
  KeyHistory history;
  history.add(frame_of(1), 1h);
  history.add(frame_of(1), 10s);  // read as one hour
  EXPECT_EQ(total(history, Span::kMinute, 1h), 2U);
  history.add(frame_of(2), 24h * 366 * 50);
  EXPECT_EQ(total(history, Span::kMinute, 24h * 366 * 50), 1U);
  EXPECT_EQ(total(history, Span::kDay, 24h * 366 * 50), 1U);
  EXPECT_EQ(KeyHistory::covered(Span::kMinute, -5s), 0s);
}

}  // namespace
}  // namespace sluice::insight
