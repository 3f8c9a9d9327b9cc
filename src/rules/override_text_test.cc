#include "rules/override_text.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::rules {
namespace {

using namespace std::chrono_literals;
using Kind = Override::Kind;

std::string text_of(const Override& given) {
  std::string text;
  append_text(given, text);
  return text;
}

TEST(OverrideText, ReadsBackWhatItHasWritten) {
  const Override numbers{
      .limit = 100, .per = 90s, .burst = 5, .until = Instant{1'767'225'600'000'001us}};
  EXPECT_EQ(text_of(numbers), "limit=100 per=90s burst=5 until=1767225600000001");
  const Override plan{.kind = Kind::kPlan, .plan = "50% of\ta b"};
  EXPECT_EQ(text_of(plan), "plan=50%25%20of%09a%20b");
  const Override month{.limit = 9, .calendar = CalendarUnit::kMonth};
  EXPECT_EQ(text_of(month), "limit=9 per=month");
  for (const Override& given : {numbers, plan, month, Override{.limit = 0},
                                Override{.kind = Kind::kBlocked, .until = Instant{1us}},
                                Override{.kind = Kind::kUnlimited}}) {
    const auto read = parse_override(text_of(given));
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(*read, given);
  }
}

TEST(OverrideText, RefusesOtherText) {
  for (const char* wrong : {"", "per=1m", "limit=", "limit=-1", "limit=1 blocked", "limit=1 per=1",
                            "blocked=1", "plan=", "plan=%4", "limit=1  per=1m",
                            "limit=1 until=99999999999999999999", "limit=1 x=2"}) {
    EXPECT_FALSE(parse_override(wrong)) << wrong;
  }
  EXPECT_EQ(parse_override("limit=1 x=2").error(),
            "'x=2' is not a part of an override; expected limit=NUMBER, plan=NAME, blocked or "
            "unlimited, then per=, burst= and until=");
}

}  // namespace
}  // namespace sluice::rules
