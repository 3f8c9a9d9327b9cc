#include "limiter/limit_arguments.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace std::chrono_literals;

Expected<ThrottleArguments> parsed(ThrottleForm form, const std::vector<std::string_view>& words) {
  return parse_throttle(form, words);
}

std::string error_of(ThrottleForm form, const std::vector<std::string_view>& words) {
  const auto read = parsed(form, words);
  return read ? "" : read.error();
}

TEST(ThrottleArguments, AreNumbersAndAQuantity) {
  const auto read = parsed(ThrottleForm::kCell, {"15", "30", "60", "-2"});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->limit(ThrottleForm::kCell)->capacity(), 16u);
  EXPECT_EQ(read->limit(ThrottleForm::kCell)->period(), 60s);
  EXPECT_EQ(read->verb(), Verb::kRefund);
  EXPECT_EQ(read->cost(), 2u);
  EXPECT_EQ(parsed(ThrottleForm::kCell, {"15", "30", "60"})->quantity, 1);
  EXPECT_EQ(parsed(ThrottleForm::kCell, {"15", "30", "60", "0"})->verb(), Verb::kPeek);
  EXPECT_EQ(parsed(ThrottleForm::kCell, {"1", "1", "1", "9223372036854775807"})->cost(),
            kMaxUnits + 1);
}

TEST(ThrottleArguments, OfGcraHaveSecondsWithAFractionAndTokens) {
  const auto period = [](std::string_view text) {
    const auto read = parsed(ThrottleForm::kGcra, {"1", "1", text});
    return read ? read->period : Duration{-1};
  };
  EXPECT_EQ(period("60"), 60s);
  EXPECT_EQ(period("0.001"), 1ms);
  EXPECT_EQ(period("1.5"), 1500ms);
  EXPECT_EQ(period("2.000001"), 2s + 1us);
  EXPECT_EQ(period("0.25"), 250ms);
  for (const std::string_view text :
       {"", ".", "1.", ".5", "-1", "1e3", "0", "0.0009", "0.0000001", "1.2.3", "31622401", "+1"}) {
    EXPECT_EQ(period(text), Duration{-1}) << text;
  }
  EXPECT_EQ(parsed(ThrottleForm::kGcra, {"1", "1", "1", "tokens", "3"})->quantity, 3);
  EXPECT_EQ(parsed(ThrottleForm::kGcra, {"1", "1", "1", "NUM_REQUESTS", "3"})->quantity, 3);
  EXPECT_EQ(error_of(ThrottleForm::kGcra, {"1", "1", "1", "3"}),
            "there is no option '3'; expected TOKENS count");
  EXPECT_EQ(error_of(ThrottleForm::kGcra, {"1", "1", "1", "TOKENS"}),
            "the option 'TOKENS' has 0 values; expected TOKENS count");
}

TEST(ThrottleArguments, HaveTheirOwnNamesInTheErrorOfASlowRefill) {
  const auto begin_of = [](ThrottleForm form) {
    const auto limit = parsed(form, {"4294967294", "1", "60"})->limit(form);
    return limit ? "" : limit.error().substr(0, limit.error().find(':'));
  };
  EXPECT_EQ(begin_of(ThrottleForm::kCell), "count and period_seconds with this max_burst");
  EXPECT_EQ(begin_of(ThrottleForm::kCrab), "count and period_seconds with this max_burst");
  EXPECT_EQ(begin_of(ThrottleForm::kGcra), "tokens_per_period and period with this max_burst");
}

TEST(ThrottleArguments, OfThrottlecrabHaveMaxBurstAsLimitAndNoRefund) {
  const auto read = parsed(ThrottleForm::kCrab, {"15", "30", "60", "2"});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->limit(ThrottleForm::kCrab)->capacity(), 15u);
  EXPECT_EQ(read->cost(), 2u);
  EXPECT_EQ(parsed(ThrottleForm::kCrab, {"1", "1", "1"})->limit(ThrottleForm::kCrab)->capacity(),
            1u);
  EXPECT_EQ(parsed(ThrottleForm::kCrab, {"4294967295", "4294967295", "1"})
                ->limit(ThrottleForm::kCrab)
                ->capacity(),
            4294967295u);
  EXPECT_EQ(error_of(ThrottleForm::kCrab, {"0", "1", "1"}),
            "max_burst is out of range: '0'; expected a whole number from 1 to 4294967295");
  EXPECT_EQ(error_of(ThrottleForm::kCrab, {"1", "1", "1", "-1"}),
            "quantity is out of range: '-1'; expected a whole number from 0 to "
            "9223372036854775807");
}

TEST(ThrottleArguments, NameWhatIsWrong) {
  EXPECT_EQ(error_of(ThrottleForm::kCell, {"x", "1", "1"}),
            "max_burst is not an integer: 'x'; expected a whole number from 0 to 4294967294");
  EXPECT_EQ(error_of(ThrottleForm::kCell, {"1", "0", "1"}),
            "count is out of range: '0'; expected a whole number from 1 to 4294967295");
  EXPECT_EQ(error_of(ThrottleForm::kGcra, {"1", "0", "1"}),
            "tokens_per_period is out of range: '0'; expected a whole number from 1 to 4294967295");
  EXPECT_EQ(error_of(ThrottleForm::kCrab, {"1", "1", "99999999999999999999"}),
            "period_seconds is out of range: '99999999999999999999'; expected a whole number from "
            "1 to 31622400");
}

TEST(ThrottleReply, IsFiveIntegersInTheOrderOfTheForm) {
  const ThrottleArguments asked{.burst = 4, .count = 1, .period = 1s};
  const Limit limit = *asked.limit(ThrottleForm::kCrab);
  Decision denied = Decision::refused(Reason::kLimited);
  denied.remaining = 0;
  denied.retry_after = 1200ms;
  denied.reset_after = 5200ms;
  using Numbers = std::array<std::int64_t, 5>;
  EXPECT_EQ(throttle_reply(ThrottleForm::kCell, asked, limit, denied), (Numbers{1, 5, 0, 2, 6}));
  EXPECT_EQ(throttle_reply(ThrottleForm::kGcra, asked, limit, denied), (Numbers{1, 5, 0, 2, 6}));
  denied.retry_after = 700ms;
  denied.reset_after = 4700ms;
  EXPECT_EQ(throttle_reply(ThrottleForm::kCrab, asked, limit, denied), (Numbers{0, 5, 0, 7, 0}));
}

}  // namespace
}  // namespace sluice
