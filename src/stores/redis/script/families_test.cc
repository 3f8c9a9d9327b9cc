#include "stores/redis/script/plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

std::string name_of(const Limit& limit) { return std::string(family_of(limit).name); }

TEST(Families, AreThoseOfTheStateAndTheRefillOfALimit) {
  EXPECT_EQ(name_of(token_bucket(5).per(1s)), "bucket");
  EXPECT_EQ(name_of(leaky_bucket(5).per(1s)), "bucket");
  EXPECT_EQ(name_of(leaky_bucket(5).per(1s).queueing()), "bucket");
  EXPECT_EQ(name_of(gcra(5).per(1s)), "bucket");
  EXPECT_EQ(name_of(token_bucket(5).per(1s).refilled_at_intervals()), "interval");
  EXPECT_EQ(name_of(fixed_window(5).per(1s)), "fixed_window");
  EXPECT_EQ(name_of(fixed_window(5).per(1s).aligned_to_clock()), "fixed_window");
  EXPECT_EQ(name_of(fixed_window(5).per(calendar_month())), "calendar");
  EXPECT_EQ(name_of(sliding_window_counter(5).per(1s)), "sliding_window_counter");
  EXPECT_EQ(name_of(sliding_window_log(5).per(1s)), "sliding_window_log");
  EXPECT_EQ(name_of(sliding_window_hybrid(5).per(1s)), "sliding_window_hybrid");
  EXPECT_EQ(name_of(concurrency(5).lease(1s)), "concurrency");
}

TEST(Families, HaveADifferentNameAndFunctionEach) {
  std::set<std::string_view> names;
  std::set<std::string_view> functions;
  for (const Family& family : families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(functions.insert(family.function).second) << family.function;
  }
}

TEST(Families, AreNumberedWithinASetFromOneInTheOrderOfTheTable) {
  const Family& first = families().front();
  const Family& last = families().back();
  EXPECT_EQ(number_of(last, bit_of(last)), 1);
  const auto both = static_cast<FamilySet>(bit_of(first) | bit_of(last));
  EXPECT_EQ(number_of(first, both), 1);
  EXPECT_EQ(number_of(last, both), 2);
  const auto all = static_cast<FamilySet>((1u << families().size()) - 1);
  for (std::size_t i = 0; i < families().size(); ++i) {
    EXPECT_EQ(number_of(families()[i], all), static_cast<int>(i) + 1);
  }
}

// Within a script the list `decide` has the functions in the order of number_of().
TEST(Families, AreListedInAScriptByTheirNumbers) {
  for (const Family& family : families()) {
    std::string text;
    append_functions(bit_of(family), text);
    const std::string function(family.function);
    EXPECT_NE(text.find("local function " + function + "(key, arg, now, verb"), text.npos);
    EXPECT_NE(text.find("local decide = {" + function + ", }\n"), text.npos) << text;
  }
  FamilySet all = 0;
  std::string list;
  for (const Family& family : families()) {
    all = static_cast<FamilySet>(all | bit_of(family));
    list.append(family.function).append(", ");
  }
  std::string text;
  append_functions(all, text);
  EXPECT_NE(text.find("local decide = {" + list + "}\n"), text.npos);
}

TEST(Families, ThatReadWholeValuesSaySo) {
  const auto text_of = [](const Limit& limit) {
    std::string text;
    append_functions(bit_of(family_of(limit)), text);
    return text;
  };
  EXPECT_TRUE(text_of(token_bucket(5).per(1s)).ends_with("local reads_whole = true\n"));
  EXPECT_TRUE(text_of(sliding_window_log(5).per(1s)).ends_with("local reads_whole = false\n"));
  EXPECT_TRUE(text_of(sliding_window_hybrid(5).per(1s)).ends_with("local reads_whole = false\n"));
}

}  // namespace
}  // namespace sluice::redis
