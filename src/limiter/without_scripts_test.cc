#include "limiter/without_scripts.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr bool works(const Limit& limit) { return works_without_scripts(limit); }

TEST(WithoutScripts, CountersOfClockSlicesWork) {
  EXPECT_TRUE(works(sliding_window_counter(10).per(1s)));
  EXPECT_TRUE(works(sliding_window_counter(10).per(1s).slices(1).counting_oldest_whole()));
  EXPECT_TRUE(works(fixed_window(10).per(1s).aligned_to_clock()));
}

TEST(WithoutScripts, AllOtherLimitsNeedScripts) {
  EXPECT_FALSE(works(fixed_window(10).per(1s)));
  EXPECT_FALSE(works(sliding_window_log(10).per(1s)));
  EXPECT_FALSE(works(sliding_window_hybrid(10).per(1s)));
  EXPECT_FALSE(works(leaky_bucket(10).per(1s)));
  EXPECT_FALSE(works(token_bucket(10).per(1s)));
  EXPECT_FALSE(works(gcra(10).per(1s)));
}

TEST(WithoutScripts, ListsTheAlgorithmsThatWorkAndThenThoseThatMustBeAligned) {
  EXPECT_EQ(algorithms_without_scripts(" with align: clock"),
            "sliding_window_counter, or fixed_window with align: clock");
  EXPECT_EQ(algorithms_without_scripts(""), "sliding_window_counter, or fixed_window");
}

}  // namespace
}  // namespace sluice
