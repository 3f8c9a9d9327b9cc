#include "core/limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>

#include "base/quoted.h"

namespace sluice::core {
namespace {

using namespace std::chrono_literals;

static_assert(base::FixedText<8>().append("a-").append_upper("b_c").view() == "a-B_C");

TEST(AlgorithmTable, HasUniqueNamesAndLettersAndASummaryInEachRow) {
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const AlgorithmInfo& row : kAlgorithms) {
    names.insert(row.name);
    letters.insert(row.letter);
    EXPECT_TRUE(row.summary.ends_with('.')) << row.name;
    EXPECT_FALSE(row.burst_excludes_first && !applies(LimitOption::kBurst, row.algorithm));
  }
  EXPECT_EQ(names.size(), kAlgorithms.size());
  EXPECT_EQ(letters.size(), kAlgorithms.size());
}

TEST(LimitOptions, HaveWordsOrARangeOfNumbers) {
  for (const OptionInfo& option : kLimitOptions) {
    const int forms = !option.words.empty() + !option.unit.empty() + option.is_time;
    EXPECT_EQ(forms, 1) << option.name;
    EXPECT_EQ(option.most > option.least, option.words.empty()) << option.name;
    EXPECT_FALSE(algorithms_with(option.option).empty()) << option.name;
  }
}

TEST(LimitOptions, ListsNamesWithAConjunction) {
  EXPECT_EQ(base::joined(algorithms_with(LimitOption::kBurst), " and "),
            "leaky_bucket, token_bucket and gcra");
}

TEST(LimitOptions, ReadBackTheValueThatWasSet) {
  for (const OptionInfo& option : kLimitOptions) {
    LimitSpec spec;
    EXPECT_EQ(value_of(spec, option.option), std::nullopt) << option.name;
    set_value(spec, option.option, 1);
    for (const OptionInfo& other : kLimitOptions) {
      EXPECT_EQ(value_of(spec, other.option).has_value(), &other == &option) << other.name;
    }
    EXPECT_EQ(value_of(spec, option.option), 1u) << option.name;
    set_value(spec, option.option, std::nullopt);
    EXPECT_EQ(value_of(spec, option.option), std::nullopt) << option.name;
  }
}

TEST(LimitOptions, AreNamedByTheErrorThatTheyCause) {
  for (const OptionInfo& option : kLimitOptions) {
    for (const AlgorithmInfo& row : kAlgorithms) {
      LimitSpec spec{.algorithm = row.algorithm, .limit = 1, .per = 1s};
      set_value(spec, option.option, std::max<std::uint64_t>(option.least, 1));
      const LimitError error = find_error(spec);
      EXPECT_EQ(error == LimitError::kNone, applies(option.option, row.algorithm));
      if (error == LimitError::kNone) continue;
      EXPECT_EQ(option_of(error, spec), option.option);
    }
  }
  EXPECT_EQ(option_of(LimitError::kPeriodOutOfRange, {}), std::nullopt);
  EXPECT_EQ(option_of(LimitError::kOptionDoesNotApply, {}), std::nullopt);
  EXPECT_EQ(option_of(LimitError::kRefillsTooSlowly, {.burst = 1}), LimitOption::kBurst);
  EXPECT_EQ(option_of(LimitError::kRefillsTooSlowly, {}), std::nullopt);
}

TEST(LimitOptions, AreLeftRightIfTheWrongFieldIsDropped) {
  for (const AlgorithmInfo& row : kAlgorithms) {
    LimitSpec spec{.algorithm = row.algorithm, .limit = kMaxUnits + 1, .per = 0s};
    drop_wrong_field(spec, find_error(spec));
    drop_wrong_field(spec, find_error(spec));
    EXPECT_EQ(find_error(spec), LimitError::kNone) << row.name;
  }
}

TEST(LimitOptions, SpecOfALimitMakesTheSameLimit) {
  const Limit limits[] = {
      sluice::token_bucket(5).per(1s).burst(9).refilled_at_intervals(),
      sluice::leaky_bucket(5).per(7s).queueing(),
      sluice::gcra(5).per(1s).burst(0),
      sluice::gcra(0).per(1s),
      sluice::fixed_window(0).per(1s).aligned_to_clock(),
      sluice::sliding_window_log(3).per(1h),
      sluice::sliding_window_counter(8).per(1s).slices(3).counting_oldest_whole(),
      sluice::sliding_window_hybrid(8).per(1s).slices(1),
      sluice::concurrency(8).lease(30s)};
  for (const Limit& limit : limits) EXPECT_EQ(Limit::make(spec_of(limit)).value(), limit);
}

}  // namespace
}  // namespace sluice::core
