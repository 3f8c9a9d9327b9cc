#include "quota/quota_buckets.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/testing/manual_clock.h"

namespace sluice {
namespace {

namespace rlqs = envoy::service::rate_limit_quota::v3;
using std::chrono::seconds;

class QuotaBucketsTest : public ::testing::Test {
 protected:
  // Returns the units that the next report says were allowed; nothing is reported of idle buckets.
  std::uint64_t reported() {
    clock_.advance(seconds{1});
    std::uint64_t sum = 0;
    for (const std::string& message : buckets_.report(true)) {
      rlqs::RateLimitQuotaUsageReports reports;
      EXPECT_TRUE(reports.ParseFromString(message));
      for (const auto& usage : reports.bucket_quota_usages()) sum += usage.num_requests_allowed();
    }
    return sum;
  }
  // To the bucket of the user `a`.
  void assign(std::uint32_t tokens, seconds interval, seconds ttl) {
    rlqs::RateLimitQuotaResponse response;
    auto& action = *response.add_bucket_action();
    (*action.mutable_bucket_id()->mutable_bucket())["user"] = "a";
    auto& assignment = *action.mutable_quota_assignment_action();
    assignment.mutable_assignment_time_to_live()->set_seconds(ttl.count());
    auto& bucket = *assignment.mutable_rate_limit_strategy()->mutable_token_bucket();
    bucket.set_max_tokens(tokens);
    bucket.mutable_tokens_per_fill()->set_value(tokens);
    bucket.mutable_fill_interval()->set_seconds(interval.count());
    buckets_.take(response.SerializeAsString());
  }

  testing::ManualClock clock_;
  const QuotaOptions options_{.domain = "shop"};
  QuotaClient::Buckets buckets_{options_, [] {}, &clock_};
};

TEST_F(QuotaBucketsTest, WhoGivesBackMoreThanWasTakenStillReportsWhatIsTakenThen) {
  const auto bucket = buckets_.bucket({{"user", "a"}}, false);
  bucket->try_take(3);
  EXPECT_EQ(reported(), 3U);
  for (int i = 0; i < 3; ++i) bucket->give_back(2);
  EXPECT_EQ(bucket->allowed(), 0U);
  EXPECT_EQ(reported(), 0U);
  // Units that were reported and came back are reported once.
  bucket->try_take(5);
  EXPECT_EQ(reported(), 2U);
  bucket->try_take(5);
  EXPECT_EQ(reported(), 5U);
}

TEST_F(QuotaBucketsTest, AnIdleBucketIsForgottenUnlessItIsShared) {
  auto bucket = buckets_.bucket({{"user", "a"}}, false);
  const std::weak_ptr<QuotaBucket> weak = bucket;
  bucket->try_take();
  EXPECT_EQ(reported(), 1U);
  clock_.advance(options_.idle);
  reported();
  EXPECT_EQ(buckets_.stats().buckets, 1U);
  EXPECT_EQ(buckets_.bucket({{"user", "a"}}, false), bucket);
  bucket.reset();
  reported();
  EXPECT_EQ(buckets_.stats().buckets, 0U);
  EXPECT_TRUE(weak.expired());
}

// A request that comes then decides by it. The service has no reason to send it to a new bucket.
TEST_F(QuotaBucketsTest, AnIdleBucketIsKeptWhileTheServiceRenewsItsAssignment) {
  buckets_.bucket({{"user", "a"}}, false)->try_take();
  EXPECT_EQ(reported(), 1U);
  clock_.advance(options_.idle);
  assign(1, seconds{1}, seconds{3});
  reported();
  EXPECT_TRUE(buckets_.bucket({{"user", "a"}}, false)->is_assigned());
  clock_.advance(seconds{3});
  reported();
  EXPECT_EQ(buckets_.stats().buckets, 0U);
}

// Three of these rates have no whole number of nanoseconds for a unit.
TEST_F(QuotaBucketsTest, APartOfManyUnitsIsUsedUp) {
  const auto bucket = buckets_.bucket({{"user", "a"}}, true);
  for (const std::uint32_t tokens : {30U, 60'000'000U, 700'000'000U, 4'000'000'000U}) {
    assign(tokens, seconds{1}, seconds{100});
    std::uint64_t taken = 0;
    for (int i = 0; i < 500; ++i) {
      clock_.advance(std::chrono::milliseconds{100});
      for (int k = 0; k < 6; ++k) taken += bucket->try_take(tokens / 30) ? tokens / 30 : 0;
    }
    const double most = 51.0 * tokens;  // it was full
    EXPECT_GE(static_cast<double>(taken), 0.97 * most) << tokens;
    EXPECT_LE(static_cast<double>(taken), most) << tokens;
    EXPECT_NEAR(static_cast<double>(bucket->tokens().most), tokens, 4) << tokens;
  }
}

TEST_F(QuotaBucketsTest, ABucketIsForgottenEvenIfUnitsCameBackAfterTheirReport) {
  const auto bucket = buckets_.bucket({{"user", "a"}}, false);
  bucket->try_take(10);
  EXPECT_EQ(reported(), 10U);
  bucket->give_back(7);
  EXPECT_EQ(reported(), 0U);
  EXPECT_TRUE(bucket->is_in_use());
  clock_.advance(options_.idle);
  reported();
  EXPECT_FALSE(bucket->is_in_use());
}

TEST_F(QuotaBucketsTest, ABucketThatIsNotUsedIsForgottenEvenIfStreamsEndAgainAndAgain) {
  buckets_.bucket({{"user", "a"}}, false)->try_take();
  for (int i = 0; i < 4; ++i) {
    buckets_.opened();
    reported();
    clock_.advance(options_.idle / 3);
  }
  reported();
  EXPECT_EQ(buckets_.stats().buckets, 0U);
}

// 1 MiB: the service ends a stream with a larger message, and then the next one, which reports the
// same buckets.
TEST_F(QuotaBucketsTest, LongIdsMakeNoMessageThatTheServiceRefuses) {
  buckets_.bucket({{"user", "a"}}, true)->try_take();
  for (int i = 0; i < 400; ++i) {
    const std::string user(i < 200 ? 4000 : 6600, 'x');
    buckets_.bucket({{"user", user + std::to_string(i)}}, true)->try_take();
  }
  std::size_t usages = 0;
  for (const std::string& message : buckets_.report(true)) {
    EXPECT_LT(message.size(), std::size_t{1} << 20);
    rlqs::RateLimitQuotaUsageReports reports;
    EXPECT_TRUE(reports.ParseFromString(message));
    usages += static_cast<std::size_t>(reports.bucket_quota_usages_size());
  }
  EXPECT_EQ(usages, 201U);
  EXPECT_EQ(buckets_.stats().reports, 201U);
}

}  // namespace
}  // namespace sluice
