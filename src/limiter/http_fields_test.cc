#include "sluice/http_fields.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <random>
#include <string>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"

namespace sluice::http_fields_test {
namespace {

using namespace std::chrono_literals;

constexpr Limit kThree = sliding_window_log(3).per(90s);

std::string joined(std::span<const HttpField> fields) {
  std::string out;
  for (const auto& [name, value] : fields) out.append(name).append(": ").append(value) += '\n';
  return out;
}

Decision denied(std::optional<Duration> retry, Reason reason = Reason::kLimited) {
  return {.outcome = Outcome::kDenied,
          .reason = reason,
          .capacity = 3,
          .reset_after = 60s,
          .retry_after = retry};
}

TEST(HttpFields, ReportAnAllowedRequest) {
  HttpFields fields;
  const Decision decision{.capacity = 3, .remaining = 2, .reset_after = 89s + 1us};
  EXPECT_EQ(joined(fields.of("user", kThree, decision)),
            "RateLimit-Policy: \"user\";q=3;w=90\nRateLimit: \"user\";r=2;t=90\n"
            "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 2\nX-RateLimit-Reset: 90\n");
  EXPECT_EQ(joined(fields.of("user", kThree, decision, HeaderFields::kLegacy)),
            "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 2\nX-RateLimit-Reset: 90\n");
  EXPECT_EQ(joined(fields.of("user", kThree, decision, HeaderFields::kNone)), "");
}

TEST(HttpFields, ReportTheWaitOfADenialInWholeSecondsAndNeverZero) {
  HttpFields fields;
  EXPECT_EQ(joined(fields.of("user", kThree, denied(1s + 1us), HeaderFields::kNone)),
            "Retry-After: 2\n");
  EXPECT_EQ(joined(fields.of("user", kThree, denied(0us), HeaderFields::kNone)),
            "Retry-After: 1\n");
  EXPECT_EQ(joined(fields.of("user", kThree, denied({}), HeaderFields::kNone)), "");
}

std::string policy_of(const Limit& limit) {
  HttpFields fields;
  return std::string(fields.of("a", limit, {}, HeaderFields::kDraft).front().value);
}

TEST(HttpFields, NameTheUnitIfItIsNotARequest) {
  EXPECT_EQ(policy_of(concurrency(4).lease(30s)), "\"a\";q=4;qu=\"concurrent-requests\";w=30");
}

TEST(HttpFields, ReportTheTimeInWhichAllUnitsOfABucketComeBack) {
  EXPECT_EQ(policy_of(gcra(1).per(1s).burst(9)), "\"a\";q=10;w=10");
  EXPECT_EQ(policy_of(gcra(1).per(1s)), "\"a\";q=1;w=1");
  EXPECT_EQ(policy_of(token_bucket(100).per(1s).burst(1000)), "\"a\";q=1000;w=10");
  EXPECT_EQ(policy_of(token_bucket(60).per(1min).burst(5)), "\"a\";q=5;w=5");
  EXPECT_EQ(policy_of(token_bucket(100).per(1s).burst(10)), "\"a\";q=10;w=1");
  EXPECT_EQ(policy_of(leaky_bucket(3).per(10s).burst(4)), "\"a\";q=4;w=14");
  EXPECT_EQ(policy_of(token_bucket(4).per(10s).burst(9).refilled_at_intervals()), "\"a\";q=9;w=30");
  EXPECT_EQ(policy_of(token_bucket(0).per(2s)), "\"a\";q=0;w=2");
  EXPECT_EQ(policy_of(sliding_window_log(7).per(5s)), "\"a\";q=7;w=5");
}

TEST(HttpFields, OfADenialNeverHaveARetryAfterBeforeT) {
  HttpFields fields;
  constexpr Limit kTen = gcra(1).per(1s).burst(9);
  const Decision bucket{.outcome = Outcome::kDenied,
                        .reason = Reason::kLimited,
                        .capacity = 10,
                        .reset_after = 10s,
                        .retry_after = 100ms};
  const std::array limits{
      NamedDecision{"bucket", kTen, bucket},
      NamedDecision{"day", kThree, {.capacity = 3, .remaining = 1, .reset_after = 9h}}};
  EXPECT_EQ(std::string(fields.lines(limits, bucket, HeaderFields::kBoth)),
            "RateLimit-Policy: \"bucket\";q=10;w=10, \"day\";q=3;w=90\r\n"
            "RateLimit: \"bucket\";r=0;t=1, \"day\";r=1;t=1\r\n"
            "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 10\r\n"
            "Retry-After: 1\r\n");
  EXPECT_EQ(joined(fields.of("user", kThree, denied({}, Reason::kNever), HeaderFields::kDraft)),
            "RateLimit-Policy: \"user\";q=3;w=90\nRateLimit: \"user\";r=0;t=60\n")
      << "without Retry-After";
}

std::string left_of(const Limit& limit, const Decision& decision) {
  HttpFields fields;
  return std::string(fields.of("a", limit, decision, HeaderFields::kDraft)[1].value);
}

TEST(HttpFields, SayWhenTheNextUnitOfABucketComesBack) {
  constexpr Limit kTen = gcra(1).per(1h).burst(9);
  const auto spent = [](std::uint64_t left, Duration reset) {
    return Decision{.capacity = 10, .remaining = left, .reset_after = reset};
  };
  EXPECT_EQ(left_of(kTen, spent(0, 10h)), "\"a\";r=0;t=3600");
  EXPECT_EQ(left_of(kTen, spent(0, 9h + 1us)), "\"a\";r=0;t=1");
  EXPECT_EQ(left_of(kTen, spent(9, 59min)), "\"a\";r=9;t=3540");
  EXPECT_EQ(left_of(kTen, spent(0, 12h)), "\"a\";r=0;t=10800") << "in debt";
  EXPECT_EQ(left_of(kTen, spent(10, 0s)), "\"a\";r=10;t=3600") << "untouched";
  EXPECT_EQ(left_of(kTen, spent(0, 5h)), "\"a\";r=0;t=1") << "of a lease: more has come back";
  constexpr Limit kSteps = token_bucket(4).per(1h).burst(10).refilled_at_intervals();
  EXPECT_EQ(left_of(kSteps, spent(0, 2h + 1min)), "\"a\";r=0;t=60");
  EXPECT_EQ(left_of(kSteps, spent(10, 0s)), "\"a\";r=10;t=3600");
}

TEST(HttpFields, SayForHowLongAWindowHoldsNoMore) {
  constexpr Limit kHour = fixed_window(3).per(1h);
  EXPECT_EQ(left_of(kHour, {.capacity = 3, .remaining = 1, .reset_after = 7min}),
            "\"a\";r=1;t=420");
  EXPECT_EQ(left_of(kHour, {.capacity = 3, .remaining = 3}), "\"a\";r=3;t=3600") << "untouched";
  EXPECT_EQ(left_of(kThree, denied(5s)), "\"a\";r=0;t=5") << "of a log that is full again later";
}

// An obedient client sends the remaining requests, waits for `t`, and sends the next one.
TEST(HttpFields, OfABucketLetAClientThatObeysNeitherWaitTooLongNorBeDenied) {
  const Limit limits[] = {gcra(1).per(1s).burst(9), token_bucket(3).per(10s).burst(7),
                          leaky_bucket(7).per(1h).burst(20), fixed_window(5).per(60s),
                          token_bucket(4).per(7s).burst(9).refilled_at_intervals()};
  std::mt19937_64 random(1);
  MemoryStore store;
  Limiter limiter(store);
  HttpFields fields;
  int compared = 0;
  for (const Limit& limit : limits) {
    const std::string key = std::to_string(&limit - limits);
    const auto period = static_cast<std::uint64_t>(limit.period().count());
    Instant now{1'000'000s};
    for (int i = 0; i < 1000; ++i) {
      now += Duration{static_cast<Duration::rep>(random() % period)};
      const Decision decision = limiter.try_acquire(key, limit, 1 + random() % 3, now);
      const Decision next = limiter.peek(key, limit, decision.remaining + 1, now);
      if (!next.retry_after) continue;  // the bucket is full
      const auto wait = std::chrono::ceil<std::chrono::seconds>(*next.retry_after);
      ASSERT_EQ(
          fields.of("a", limit, decision, HeaderFields::kDraft)[1].value,
          "\"a\";r=" + std::to_string(decision.remaining) + ";t=" + std::to_string(wait.count()));
      ++compared;
    }
  }
  EXPECT_GT(compared, 3000);
}

TEST(HttpFields, SayNoTimeForALimitOfNothing) {
  EXPECT_EQ(left_of(token_bucket(0).per(1s), denied({}, Reason::kNever)), "\"a\";r=0");
}

TEST(HttpFields, SayNoTimeForABudgetThatDoesNotRenew) {
  HttpFields fields;
  EXPECT_EQ(joined(fields.of("card", budget(10).never(), {.capacity = 10, .remaining = 10})),
            "RateLimit-Policy: \"card\";q=10\nRateLimit: \"card\";r=10\n"
            "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 10\n");
  const Decision spent{
      .capacity = 10, .remaining = 3, .reset_after = kNeverEnds - Duration{56 * 365 * 24h}};
  EXPECT_EQ(joined(fields.of("card", budget(10).never(), spent, HeaderFields::kBoth)),
            "RateLimit-Policy: \"card\";q=10\nRateLimit: \"card\";r=3\n"
            "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 3\n");
}

TEST(HttpFields, SayNoTimeForABlockWithoutEnd) {
  HttpFields fields;
  Decision blocked = denied({}, Reason::kBlocked);
  blocked.reset_after = {};
  EXPECT_EQ(joined(fields.of("user", kThree, blocked, HeaderFields::kBoth)),
            "RateLimit-Policy: \"user\";q=3;w=90\nRateLimit: \"user\";r=0\n"
            "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 0\n");
  blocked.retry_after = blocked.reset_after = 5s;
  EXPECT_EQ(joined(fields.of("user", kThree, blocked, HeaderFields::kLegacy)),
            "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 5\n"
            "Retry-After: 5\n");
}

TEST(HttpFields, PutTheTightestOfSeveralLimitsFirst) {
  HttpFields fields;
  const std::array limits{
      NamedDecision{"all", token_bucket(100).per(1s), {.capacity = 100, .remaining = 7}},
      NamedDecision{"user", kThree, denied(60s), "a/b"},
      NamedDecision{"user", kThree, {.capacity = 3, .remaining = 1, .reset_after = 5s}, "c"}};
  EXPECT_EQ(std::string(fields.lines(limits, denied(60s), HeaderFields::kDraft)),
            "RateLimit-Policy: \"a%2Fb/user\";q=3;w=90, \"c/user\";q=3;w=90, \"all\";q=100;w=1\r\n"
            "RateLimit: \"a%2Fb/user\";r=0;t=60, \"c/user\";r=1;t=5, \"all\";r=7;t=1\r\n"
            "Retry-After: 60\r\n");
  EXPECT_EQ(fields.lines({}, denied(60s)), "Retry-After: 60\r\n");
  EXPECT_EQ(fields.lines({}, {}), "");
}

TEST(HttpFields, ReportOnlyThePolicyOfALimitThatWasNotRead) {
  HttpFields fields;
  EXPECT_EQ(joined(fields.of("user", kThree, denied({}, Reason::kFallback))),
            "RateLimit-Policy: \"user\";q=3;w=90\n");
}

TEST(HttpFields, LeaveOutAListWithoutRoomForItsFirstMember) {
  HttpFields fields;
  EXPECT_EQ(joined(fields.of(std::string(720, '\xE4'), kThree, {.capacity = 3, .remaining = 2})),
            "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 2\nX-RateLimit-Reset: 0\n");
}

TEST(HttpFields, AreMovable) {
  HttpFields first;
  HttpFields second = std::move(first);
  EXPECT_EQ(joined(second.of("a", kThree, denied(1s), HeaderFields::kNone)), "Retry-After: 1\n");
}

TEST(HttpStatus, DistinguishesDenialsFromFailures) {
  EXPECT_EQ(http_status({}), 200);
  EXPECT_EQ(http_status(denied(1s)), 429);
  EXPECT_EQ(http_status(denied({}, Reason::kNever)), 429);
  EXPECT_EQ(http_status(Decision::refused(Reason::kStoreTimeout)), 503);
  EXPECT_EQ(http_status(Decision::refused(Reason::kInvalid)), 400);
}

}  // namespace
}  // namespace sluice::http_fields_test
