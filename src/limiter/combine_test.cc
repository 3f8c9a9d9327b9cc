#include "limiter/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace sluice {
namespace {

using namespace std::chrono_literals;

Decision allowed(std::uint32_t limit, std::uint32_t remaining, Duration reset_after = 0s) {
  return {.capacity = limit, .remaining = remaining, .reset_after = reset_after};
}
Decision denied(std::uint32_t limit, std::uint32_t remaining, Duration retry_after) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kLimited,
          .capacity = limit,
          .remaining = remaining,
          .retry_after = retry_after};
}
Decision never(std::uint32_t limit, std::uint32_t remaining) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kNever,
          .capacity = limit,
          .remaining = remaining};
}
Decision queued(std::uint32_t limit, std::uint32_t remaining, Duration delay) {
  return {.capacity = limit, .remaining = remaining, .delay = delay};
}

Decision combined(const std::vector<Decision>& each) { return combine(each); }

TEST(Combine, OfOneIsThatOne) {
  for (const Decision& d : {allowed(5, 3, 2s), denied(5, 0, 1s), never(5, 5), queued(5, 1, 3s)}) {
    EXPECT_EQ(combined({d}), d);
  }
}

TEST(Combine, AllowedByAllTellsTheTightest) {
  EXPECT_EQ(combined({allowed(100, 40, 1s), allowed(10, 3, 9s), allowed(50, 20, 99s)}),
            allowed(10, 3, 9s));
}

TEST(Combine, FirstOfEquallyTightWins) {
  EXPECT_EQ(combined({allowed(100, 3, 1s), allowed(10, 3, 9s)}), allowed(100, 3, 1s));
}

TEST(Combine, OneDenialDenies) {
  EXPECT_EQ(combined({allowed(10, 0, 1s), denied(10, 5, 2s), allowed(10, 1)}), denied(10, 5, 2s));
}

TEST(Combine, DeniedByManyTellsTheTightestOfThemAndTheLongestWait) {
  EXPECT_EQ(combined({denied(10, 2, 9s), denied(20, 1, 3s), allowed(30, 0)}), denied(20, 1, 9s));
}

TEST(Combine, NeverOfAnyIsNeverOfAllWithoutAWait) {
  const Decision d = combined({denied(10, 0, 9s), never(5, 5), allowed(3, 3)});
  EXPECT_EQ(d.reason, Reason::kNever);
  EXPECT_FALSE(d.retry_after.has_value());
  EXPECT_EQ(d.capacity, 10u);  // the numbers are still those of the tightest denial
}

TEST(Combine, DelayIsTheLongestAlsoWhereAnotherLimitIsTighter) {
  const Decision d = combined({queued(10, 8, 2s), queued(10, 9, 5s), allowed(10, 1)});
  EXPECT_EQ(d.delay, Duration{5s});
  EXPECT_EQ(d.remaining, 1u);
  EXPECT_EQ(combined({queued(10, 8, 0s), allowed(10, 9)}).delay, Duration{0});
}

TEST(Combine, DeniedHasNoDelay) {
  EXPECT_FALSE(combined({queued(10, 8, 2s), denied(10, 0, 1s)}).delay.has_value());
}

TEST(Combine, OrderOfChargesDoesNotMatterToTheAnswer) {
  std::vector<Decision> each = {denied(10, 2, 9s), allowed(30, 0), never(20, 1), queued(5, 4, 1s)};
  const auto by_limit = [](const Decision& a, const Decision& b) {
    return a.capacity < b.capacity;
  };
  std::sort(each.begin(), each.end(), by_limit);
  const Decision first = combined(each);
  while (std::next_permutation(each.begin(), each.end(), by_limit)) {
    EXPECT_EQ(combined(each), first);
  }
}

}  // namespace
}  // namespace sluice
