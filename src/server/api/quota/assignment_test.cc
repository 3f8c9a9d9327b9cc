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

TEST(Assignment, IsNeverFasterThanItsPart) {
  for (std::uint64_t share = 1; share < kWhole; share = share * 7 + 3) {
    const QuotaPart part{share, token_bucket(999).per(7s)};
    const Assignment made = assign({&part, 1}, 1s);
    // tokens / interval <= share * 999 / 7 s
    using Wide = unsigned __int128;
    EXPECT_LE(Wide{made.tokens} * 7000 * kWhole,
              Wide{share} * 999 * static_cast<std::uint64_t>(made.interval.count()));
  }
}

TEST(ShareOf, IsTheDemandInTheUnitOfTheLimit) {
  EXPECT_EQ(share_of(token_bucket(100).per(1s), 500, 5s), kWhole);
  EXPECT_EQ(share_of(token_bucket(100).per(1s), 50, 1s), kWhole / 2);
  EXPECT_EQ(share_of(token_bucket(100).per(1s), 0, 0s), 0);
  EXPECT_EQ(share_of(token_bucket(1).per(1h), 1'000'000, 1s), std::uint64_t{1} << 50);
}

TEST(ShareMeter, LosesNoFractions) {
  const Limit limit = fixed_window(7).per(3s);
  ShareMeter meter;
  std::uint64_t sum = 0;
  for (int i = 0; i < 3000; ++i) sum += meter.count(limit, kWhole, 1ms);
  EXPECT_EQ(sum, 7);
}

}  // namespace sluice::server::assignment_test
