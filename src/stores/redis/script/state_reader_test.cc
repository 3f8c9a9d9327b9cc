#include "stores/redis/script/state_reader.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/civil_time.h"

namespace sluice::redis::state_reader_test {
namespace {

constexpr std::uint64_t kChanged = 1700000000123456;
constexpr std::uint64_t kForgotten = 1700000060000000 / 1048576 + 1;

// Little-endian.
std::string bytes(std::uint64_t number, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

std::string bucket(std::uint64_t units, std::uint64_t aux, std::uint64_t tag,
                   std::uint64_t forgotten = kForgotten) {
  return "\xC1\x11" + bytes(kChanged, 7) + bytes(aux, 6) + bytes(units, 4) + bytes(tag, 4) +
         bytes(forgotten, 4);
}

std::string summary_of(Algorithm algorithm, const std::string& value) {
  const auto state = read_counter_state(algorithm, value);
  return state ? state->summary : "not a state";
}

TEST(CounterName, IsReadFromTheKey) {
  EXPECT_EQ(read_counter_name("t{}user:42"), (CounterName{Algorithm::kTokenBucket, "", "user:42"}));
  EXPECT_EQ(read_counter_name("f{a}"), (CounterName{Algorithm::kFixedWindow, "a", ""}));
  EXPECT_EQ(read_counter_name("l{a{%7D%25}{b}"),
            (CounterName{Algorithm::kSlidingWindowLog, "a{}%", "{b}"}));
  EXPECT_EQ(read_counter_name("rt{a}login|ip=::1"),
            (CounterName{Algorithm::kTokenBucket, "a", "login|ip=::1", Keyspace::kRules}));
  EXPECT_EQ(read_counter_name("c{}"), (CounterName{Algorithm::kSlidingWindowCounter, "", ""}));
  EXPECT_EQ(read_counter_name("h{}"), (CounterName{Algorithm::kSlidingWindowHybrid, "", ""}));
  EXPECT_EQ(read_counter_name("b{}"), (CounterName{Algorithm::kLeakyBucket, "", ""}));
  EXPECT_EQ(read_counter_name("g{}"), (CounterName{Algorithm::kGcra, "", ""}));
}

TEST(CounterName, IsAbsentForKeysThatAreNotOfCounters) {
  for (const char* key : {"", "t", "t{", "t{x", "x{}key", "T{}key", "t}{key", "tt{}key", "rules",
                          "t{%}key", "t{%2}key", "t{%41}key"}) {
    EXPECT_EQ(read_counter_name(key), std::nullopt) << key;
  }
}

TEST(CounterState, OfABucketShowsTheUnitsSpent) {
  const auto state = read_counter_state(Algorithm::kTokenBucket, bucket(12, 500, 8));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->summary, "12 units spent and a part of one");
  EXPECT_EQ(base::to_rfc3339(state->changed, 6), "2023-11-14T22:13:20.123456Z");
  ASSERT_TRUE(state->forgotten_from);
  EXPECT_EQ(state->forgotten_from->time_since_epoch().count(), std::int64_t{kForgotten} << 20);
  EXPECT_EQ(summary_of(Algorithm::kGcra, bucket(1, 0, 8)), "1 unit spent");
  EXPECT_EQ(summary_of(Algorithm::kLeakyBucket, bucket(0, 0, 8)), "0 units spent");
}

TEST(CounterState, OfAnIntervalBucketShowsWhenItWasRefilled) {
  const auto state = read_counter_state(Algorithm::kTokenBucket, bucket(3, 2000000, 9));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->summary, "3 units spent");
  ASSERT_EQ(state->details.size(), 1u);
  EXPECT_EQ(state->details[0], "2s since the last refill");
}

TEST(CounterState, ThatIsNeverForgottenHasNoDateForIt) {
  const auto state = read_counter_state(Algorithm::kTokenBucket, bucket(3, 0, 8, 0xFFFFFFFE));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->forgotten_from, std::nullopt);
}

TEST(CounterState, OfAWindowShowsWhenItOpened) {
  const std::string value = "\xC1\x12" + bytes(kChanged, 7) + bytes(123456, 6) + bytes(5, 4) +
                            bytes(77, 4) + bytes(kForgotten, 4);
  EXPECT_EQ(summary_of(Algorithm::kFixedWindow, value),
            "5 units used in the window since 2023-11-14T22:13:20.000000Z");
}

std::string slices(std::uint64_t period, std::uint64_t n, std::initializer_list<int> counts) {
  std::string value =
      "\xC1\x14" + bytes(kChanged, 7) + bytes(period, 6) + bytes(n, 2) + bytes(kForgotten, 4);
  for (const int count : counts) value += bytes(static_cast<std::uint64_t>(count), 4);
  return value;
}

TEST(CounterState, OfSlicesShowsTheUnitsOfEach) {
  const auto state =
      read_counter_state(Algorithm::kSlidingWindowCounter, slices(60000000, 6, {4, 0, 1}));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->summary, "5 units in the 6 slices of 1m, and the one before them");
  EXPECT_EQ(state->details,
            (std::vector<std::string>{"newest slice: 4 units", "1 slice before: 0 units",
                                      "2 slices before: 1 unit"}));
}

// An entry of a log: its instant, in seconds before the last change, and the running sum.
std::string entry(std::uint64_t seconds_before, std::uint64_t sum) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 48) - 1;
  return bytes((kChanged - seconds_before * 1000000) & kMask, 6) + bytes(sum, 4);
}

std::string log_head(char layout, int summaries, int room, int head, int count, int blocks,
                     int back) {
  const auto number = [](int value, std::size_t size) {
    return bytes(static_cast<std::uint64_t>(value), size);
  };
  return std::string("\xC1") + layout + bytes(kChanged, 7) + bytes(kForgotten, 4) +
         bytes(kForgotten << 20, 7) + number(summaries, 2) + number(summaries, 2) +
         number(room, 4) + number(head, 4) + number(count, 4) + bytes(0xFFFFFFFF, 4) + bytes(8, 4) +
         std::string(16, '\0') + number(blocks, 1) + bytes(0, 2) + number(back, 1);
}

// Entries of 3, 2 and 4 units, a second apart, in a ring of four whose oldest entry is in slot 2;
// in the hybrid a summary before them.
std::string log(char layout) {
  const bool is_hybrid = layout == '\x15';
  std::string value = log_head(layout, is_hybrid, 4, 2, 3, 0, 0);
  if (is_hybrid) value += entry(9, 0).substr(0, 6) + entry(8, 0).substr(0, 6) + bytes(7, 4);
  return value + entry(0, 8) + std::string(10, '\0') + entry(2, 2) + entry(1, 4);
}

TEST(CounterState, OfALogShowsItsEntriesOldestFirst) {
  const auto state = read_counter_state(Algorithm::kSlidingWindowLog, log('\x13'));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->summary, "9 units in 3 entries");
  EXPECT_EQ(state->details, (std::vector<std::string>{"2023-11-14T22:13:18.123456Z: 3 units",
                                                      "2023-11-14T22:13:19.123456Z: 2 units",
                                                      "2023-11-14T22:13:20.123456Z: 4 units"}));
}

// The newest two wait behind the head, the oldest is the only one in the ring.
TEST(CounterState, OfALongLogShowsTheEntriesOutsideOfTheRingToo) {
  std::string blocks = entry(1, 4) + entry(0, 8);
  blocks.resize(320);
  const auto state =
      read_counter_state(Algorithm::kSlidingWindowLog, log_head('\x13', 0, 2, 1, 3, 1, 2) + blocks +
                                                           std::string(10, '\0') + entry(2, 2));
  const auto plain = read_counter_state(Algorithm::kSlidingWindowLog, log('\x13'));
  ASSERT_TRUE(state && plain);
  EXPECT_EQ(state->summary, plain->summary);
  EXPECT_EQ(state->details, plain->details);
}

TEST(CounterState, OfAHybridShowsItsOlderSlicesToo) {
  const auto state = read_counter_state(Algorithm::kSlidingWindowHybrid, log('\x15'));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->summary, "16 units in 3 entries and 1 older slice");
  ASSERT_EQ(state->details.size(), 4u);
  EXPECT_EQ(state->details[0],
            "2023-11-14T22:13:11.123456Z to 2023-11-14T22:13:12.123456Z: 7 units");
}

TEST(CounterState, OfAnotherAlgorithmIsNotRead) {
  EXPECT_EQ(read_counter_state(Algorithm::kFixedWindow, bucket(1, 0, 8)), std::nullopt);
  EXPECT_EQ(read_counter_state(Algorithm::kSlidingWindowLog, log('\x15')), std::nullopt);
  EXPECT_TRUE(read_counter_state(Algorithm::kGcra, bucket(1, 0, 8)));
}

TEST(CounterState, IsAbsentForOtherValues) {
  for (const std::string& value :
       {std::string(), std::string("42"), std::string(27, 'x'), bucket(1, 0, 8) + "x",
        bucket(1, 0, 8).substr(0, 26), bucket(1, std::uint64_t{1} << 45, 8)}) {
    EXPECT_EQ(read_counter_state(Algorithm::kTokenBucket, value), std::nullopt) << value;
  }
  EXPECT_EQ(read_counter_state(Algorithm::kSlidingWindowCounter, slices(60000000, 1, {1, 2, 3})),
            std::nullopt);
  EXPECT_EQ(read_counter_state(Algorithm::kSlidingWindowCounter, slices(60000000, 0, {})),
            std::nullopt);
}

TEST(CounterState, OfDamagedBytesIsReadSafely) {
  std::mt19937_64 random(9);
  const std::string whole = log('\x15');
  for (int i = 0; i < 20'000; ++i) {
    std::string value = whole;
    for (int j = 0; j < 3; ++j)
      value[2 + random() % (value.size() - 2)] ^= static_cast<char>(random());
    const auto state = read_counter_state(Algorithm::kSlidingWindowHybrid, value);
    EXPECT_TRUE(!state || !state->summary.empty());
  }
}

}  // namespace
}  // namespace sluice::redis::state_reader_test
