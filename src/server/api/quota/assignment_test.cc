#include "server/api/quota/quota_service.h"

#include <gtest/gtest.h>

#include "sluice/limit_builder.h"

namespace sluice::server::assignment_test {

using namespace std::chrono_literals;

constexpr std::uint64_t kWhole = quota::kWhole;

TEST(Assignment, LastsForThePeriodOfTheLimit) {
  const QuotaPart part{kWhole, token_bucket(100).per(2s)};
  EXPECT_EQ(assign({&part, 1}, 1s), (Assignment{Assignment::Kind::kTokens, 100, 2000ms}));
}

TEST(Assignment, LastsAtLeastForTheTimeBetweenDivisionsAndAtMostFiveSeconds) {
  const QuotaPart fast{kWhole, token_bucket(10).per(10ms)};
  EXPECT_EQ(assign({&fast, 1}, 1s), (Assignment{Assignment::Kind::kTokens, 1000, 1000ms}));
  const QuotaPart slow{kWhole, fixed_window(3600).per(1h)};
  EXPECT_EQ(assign({&slow, 1}, 1s), (Assignment{Assignment::Kind::kTokens, 5, 5000ms}));
}

TEST(Assignment, HasTheStrictestPartAndCountsTheCost) {
  const QuotaPart parts[] = {{kWhole / 2, token_bucket(100).per(1s)},
                             {kWhole, token_bucket(100).per(1s), 4}};
  EXPECT_EQ(assign(parts, 1s), (Assignment{Assignment::Kind::kTokens, 25, 1000ms}));
}

TEST(Assignment, OfNothingDeniesEverything) {
  const QuotaPart parts[] = {{kWhole, token_bucket(100).per(1s)}, {0, token_bucket(100).per(1s)}};
  EXPECT_EQ(assign(parts, 1s).kind, Assignment::Kind::kDenyAll);
}

TEST(Assignment, OfLessThanOneRequestHasOneTokenInALongerInterval) {
  const QuotaPart part{kWhole / 4, token_bucket(1).per(1s)};
  EXPECT_EQ(assign({&part, 1}, 1s), (Assignment{Assignment::Kind::kTokens, 1, 4000ms}));
}

// Envoy computes with whole seconds.
TEST(Assignment, IsAtMostAMillionthFasterThanItsPartInWholeSeconds) {
  for (std::uint64_t share = 1; share < kWhole; share = share * 7 + 3) {
    const QuotaPart part{share, token_bucket(999).per(7s)};
    const Assignment made = assign({&part, 1}, 100ms);
    const std::chrono::seconds interval = std::chrono::floor<std::chrono::seconds>(made.interval);
    EXPECT_EQ(interval, made.interval);
    EXPECT_GE(interval, 1s);
    const auto per_second = [](double units, double seconds) { return units / seconds; };
    const double rate = per_second(999.0 * static_cast<double>(share) / kWhole, 7);
    const double given = per_second(made.tokens, static_cast<double>(interval.count()));
    if (share > 1000) {
      EXPECT_LE(given, rate * 1.000001) << share;
    }
    if (rate > 5) {
      EXPECT_GE(given, rate * 0.97) << share;
    }
  }
}

TEST(Assignment, OfThreeThirdsIsTheWhole) {
  for (const std::uint32_t limit : {3U, 60U, 99'999U}) {
    const QuotaPart part{kWhole / 3, token_bucket(limit).per(1s)};
    EXPECT_EQ(assign({&part, 1}, 500ms),
              (Assignment{Assignment::Kind::kTokens, limit / 3, 1000ms}));
  }
}

TEST(Assignment, OfTheWholeIsNotMoreThanTheLimit) {
  const QuotaPart part{kWhole, token_bucket(4'000'000'000).per(1s)};
  EXPECT_EQ(assign({&part, 1}, 1s).tokens, 4'000'000'000);
}

TEST(Assignment, LastsLongerIfItHasFewTokens) {
  const QuotaPart part{kWhole / 4, token_bucket(10).per(1s)};
  EXPECT_EQ(assign({&part, 1}, 1s), (Assignment{Assignment::Kind::kTokens, 5, 2000ms}));
}

TEST(ShareOf, IsTheDemandInTheUnitOfTheLimit) {
  EXPECT_EQ(share_of(token_bucket(100).per(1s), 500, 5s), kWhole);
  EXPECT_EQ(share_of(token_bucket(100).per(1s), 50, 1s), kWhole / 2);
  EXPECT_EQ(share_of(token_bucket(100).per(1s), 0, 0s), 0);
  EXPECT_EQ(share_of(token_bucket(100).per(1s), 13, 3s), kWhole * 13 / 300);  // 4.33 a second
  EXPECT_EQ(share_of(token_bucket(1).per(1h), 1'000'000, 1s), std::uint64_t{1} << 50);
}

TEST(UnitsIn, LosesNoFractions) {
  const Limit limit = fixed_window(7).per(3s);
  unsigned __int128 left = 0;
  std::uint64_t sum = 0;
  for (int i = 0; i < 3000; ++i) sum += units_in(limit, kWhole, 1ms, &left);
  EXPECT_EQ(sum, 7);
}

}  // namespace sluice::server::assignment_test
