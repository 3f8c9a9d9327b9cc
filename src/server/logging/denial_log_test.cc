#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/logging/denial_log.h"
#include "server/logging/log.h"
#include "server/logging/test_pipe.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

Decision denied(Reason reason, std::optional<Duration> wait) {
  Decision decision;
  decision.outcome = Outcome::kDenied;
  decision.reason = reason;
  decision.retry_after = wait;
  return decision;
}

constexpr std::string_view kRule = "order";
constexpr std::string_view kUser = "user";

class Denials : public ::testing::Test {
 protected:
  // The lines without time and level, after `write` has written to a denial log.
  template <class Write>
  std::vector<std::string> lines(const LogOptions& options, Write write) {
    TestingPipe pipe;
    {
      Log log(options, pipe.writing());
      DenialLog denials(log, clock_, clock_);
      write(denials);
    }
    auto found = pipe.lines();
    for (auto& line : found) line = line.substr(line.find(" info ") + 6);
    return found;
  }
  std::string line(std::string_view rule, std::string_view limit, std::string_view key,
                   const Decision& decision, const LogOptions& options = {}) {
    const auto found =
        lines(options, [&](DenialLog& denials) { denials.write(rule, limit, key, decision); });
    return found.size() == 1 ? found[0] : std::to_string(found.size()) + " lines";
  }

  // A key that is near the limit.
  LimitAnswer near(std::string_view counter, std::string_view tag, std::string_view label) const {
    LimitAnswer answer;
    answer.rule = &rule_;
    answer.limit = &limit_;
    answer.counter = counter;
    answer.tag = tag;
    answer.label = label;
    answer.decision = {.capacity = 10, .remaining = 1, .reset_after = seconds{30}};
    return answer;
  }

  testing::ManualClock clock_;

 private:
  const Rule rule_ = [] {
    Rule rule;
    rule.name = kRule;
    return rule;
  }();
  const RuleLimit limit_{std::string(kUser), {}, token_bucket(1).per(seconds{1})};
};

const Decision kLimited = denied(Reason::kLimited, microseconds{1500});

TEST_F(Denials, RemembersWhoWasDenied) {
  const Attributes request{
      {"ip", "192.0.2.1"}, {"path", "/login"}, {"header.user-agent", std::string(1000, 'a')}};
  const Decision decision = denied(Reason::kLimited, {});
  const auto write = [&](DenialLog& denials) {
    denials.write(kRule, kUser, "ada", decision, {}, &request);
    denials.write(kRule, kUser, "bob", decision);
  };
  lines({}, [&](DenialLog& denials) {
    write(denials);
    const std::vector<RecentDenial> recent = denials.recent();
    ASSERT_EQ(recent.size(), 1U) << "of the other request nothing is known";
    EXPECT_EQ(recent[0].rule, kRule);
    EXPECT_EQ(recent[0].key, "ada");
    EXPECT_EQ(recent[0].client, "192.0.2.1");
    EXPECT_EQ(recent[0].path, "/login");
    EXPECT_EQ(recent[0].agent.size(), 256U);
  });
  lines({.keys = LogKeys::kHash}, [&](DenialLog& denials) {
    write(denials);
    EXPECT_TRUE(denials.recent().empty());
  });
}

TEST_F(Denials, NameRuleLimitKeyReasonAndTheWaitRoundedUp) {
  EXPECT_EQ(line(kRule, kUser, "u1", denied(Reason::kLimited, microseconds{1001})),
            "denied rule=order limit=user key=u1 reason=limited retry_after_ms=2");
}

TEST_F(Denials, OfShadowRulesHaveLinesAndARateOfTheirOwn) {
  LimitAnswer limit = near("c", {}, "u1");
  limit.decision = denied(Reason::kLimited, microseconds{1001});
  const auto found = lines({.denials_per_second = 1}, [&](DenialLog& denials) {
    denials.write_shadow(limit, {});
    denials.write_shadow(limit, {});
    denials.write(kRule, kUser, "u2", kLimited);
    clock_.advance(seconds{1});
    denials.write_shadow(limit, {});
  });
  EXPECT_EQ(found, (std::vector<std::string>{
                       "would_deny rule=order limit=user key=u1 reason=limited retry_after_ms=2",
                       "denied rule=order limit=user key=u2 reason=limited retry_after_ms=2",
                       "would_deny rule=order limit=user key=u1 reason=limited retry_after_ms=2 "
                       "suppressed=1"}));
}

TEST_F(Denials, NameTheTraceIfItIsValid) {
  const auto found = lines({}, [&](DenialLog& denials) {
    denials.write(kRule, kUser, "u1", kLimited, [] {
      return std::string_view("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    });
    denials.write(kRule, kUser, "u1", kLimited, [] { return std::string_view("00-x"); });
  });
  const std::string line = "denied rule=order limit=user key=u1 reason=limited retry_after_ms=2";
  EXPECT_EQ(found, (std::vector{line + " trace_id=4bf92f3577b34da6a3ce929d0e0e4736"
                                       " span_id=00f067aa0ba902b7",
                                line}));
}

TEST_F(Denials, GiveNoTimeOfABudgetThatDoesNotRenew) {
  LimitAnswer limit = near("c|u1", {}, "u1");
  limit.numbers = budget(10).never();
  limit.decision.reset_after = std::chrono::hours{24 * 365};
  EXPECT_EQ(
      lines({}, [&](DenialLog& denials) { denials.report_near(limit); }),
      (std::vector<std::string>{"near rule=order limit=user key=u1 capacity=10 remaining=1"}));
}

TEST_F(Denials, ReportAKeyNearALimitOncePerWindow) {
  EXPECT_EQ(lines({},
                  [&](DenialLog& denials) {
                    EXPECT_TRUE(denials.report_near(near("c|u1", {}, "u1")));
                    EXPECT_FALSE(denials.report_near(near("c|u1", {}, "u1")));
                    EXPECT_TRUE(denials.report_near(near("c|u1", "tag", "u1")));
                    clock_.advance(seconds{30});
                    EXPECT_TRUE(denials.report_near(near("c|u1", {}, {})));
                  }),
            (std::vector<std::string>{
                "near rule=order limit=user key=u1 capacity=10 remaining=1 reset_after_ms=30000",
                "near rule=order limit=user key=u1 capacity=10 remaining=1 reset_after_ms=30000",
                "near rule=order limit=user capacity=10 remaining=1 reset_after_ms=30000"}));
}

TEST_F(Denials, OfKeysNearALimitHaveTheSameRateAgain) {
  const auto found = lines({.denials_per_second = 1}, [&](DenialLog& denials) {
    for (const std::string_view key : {"a", "b", "c"}) {
      EXPECT_TRUE(denials.report_near(near(key, {}, key))) << "counted without a line";
    }
    denials.write(kRule, kUser, "d", kLimited);
    clock_.advance(seconds{1});
    denials.report_near(near("e", {}, "e"));
  });
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1], "denied rule=order limit=user key=d reason=limited retry_after_ms=2");
  EXPECT_TRUE(found[2].ends_with("suppressed=2")) << found[2];
}

TEST_F(Denials, LeaveOutWhatIsEmpty) {
  EXPECT_EQ(line({}, {}, "a key", kLimited),
            "denied key=\"a key\" reason=limited retry_after_ms=2");
  EXPECT_EQ(line(kRule, {}, {}, denied(Reason::kFallback, {})),
            "denied rule=order reason=fallback");
  EXPECT_EQ(line({}, {}, {}, denied(Reason::kInvalid, {})), "denied reason=invalid");
  EXPECT_EQ(line(kRule, kUser, "u1", denied(Reason::kNever, {})),
            "denied rule=order limit=user key=u1 reason=never");
}

TEST_F(Denials, AreOneObjectALineInJson) {
  const auto found = lines({.json = true}, [&](DenialLog& denials) {
    denials.write(kRule, kUser, "a \"b\"\n\xff", kLimited);
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].ends_with(
      "\"level\":\"info\",\"message\":\"denied\",\"rule\":\"order\",\"limit\":\"user\","
      "\"key\":\"a \\\"b\\\"\\n\uFFFD\",\"reason\":\"limited\",\"retry_after_ms\":2}"))
      << found[0];
}

TEST_F(Denials, HashKeysOrLeaveThemOut) {
  EXPECT_EQ(line(kRule, kUser, "secret", kLimited, {.keys = LogKeys::kNone}),
            "denied rule=order limit=user reason=limited retry_after_ms=2");
  const auto found = lines({.keys = LogKeys::kHash}, [&](DenialLog& denials) {
    for (const char* key : {"secret", "secret", "other"})
      denials.write(kRule, kUser, key, kLimited);
  });
  ASSERT_EQ(found.size(), 3U);
  const std::string start = "denied rule=order limit=user key=";
  ASSERT_TRUE(found[0].starts_with(start));
  EXPECT_EQ(found[0].find(" reason="), start.size() + 16) << "16 digits";
  EXPECT_EQ(found[0].find("secret"), std::string::npos);
  EXPECT_EQ(found[0], found[1]) << "repeated denials of one key are recognizable";
  EXPECT_NE(found[0], found[2]);
  EXPECT_NE(line(kRule, kUser, "secret", kLimited, {.keys = LogKeys::kHash}), found[0])
      << "each process has its own secret";
}

TEST_F(Denials, CutLongKeys) {
  EXPECT_EQ(line(kRule, kUser, std::string(40'000, 'k'), kLimited),
            "denied rule=order limit=user key=" + std::string(1024, 'k') +
                "… reason=limited retry_after_ms=2");
}

TEST_F(Denials, AreNotWrittenForAllowedRequests) {
  EXPECT_EQ(line(kRule, kUser, "u1", {.reason = Reason::kShadow}), "0 lines");
}

TEST_F(Denials, AreWrittenAtABoundedRateWithTheNumberSuppressed) {
  clock_.set(Instant{seconds{1'000'000}});
  const auto found = lines({.denials_per_second = 3}, [&](DenialLog& denials) {
    for (int i = 0; i < 10; ++i) denials.write(kRule, kUser, "u1", kLimited);
    clock_.advance(microseconds{999'999});
    for (int i = 0; i < 5; ++i) denials.write(kRule, kUser, "u1", kLimited);
    clock_.advance(microseconds{1});
    for (int i = 0; i < 4; ++i) denials.write(kRule, kUser, "u1", kLimited);
    clock_.advance(seconds{1});
    denials.write(kRule, kUser, "u1", kLimited);
    clock_.advance(seconds{1});
    denials.write(kRule, kUser, "u1", kLimited);
  });
  const std::string plain = "denied rule=order limit=user key=u1 reason=limited retry_after_ms=2";
  EXPECT_EQ(found, (std::vector<std::string>{plain, plain, plain, plain + " suppressed=12", plain,
                                             plain, plain + " suppressed=1", plain}));
}

TEST_F(Denials, AreNotWrittenIfTheRateIsZeroOrTheLevelIsHigher) {
  EXPECT_EQ(line(kRule, kUser, "u1", kLimited, {.denials_per_second = 0}), "0 lines");
  EXPECT_EQ(line(kRule, kUser, "u1", kLimited, {.level = LogLevel::kWarning}), "0 lines");
}

TEST_F(Denials, OfSeveralThreadsAreWrittenOrCountedOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  const auto found = lines({.denials_per_second = 7}, [&](DenialLog& denials) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < kEach; ++n) denials.write(kRule, kUser, "u1", kLimited);
      });
    }
    for (auto& thread : threads) thread.join();
    clock_.advance(seconds{1});
    denials.write(kRule, kUser, "u1", kLimited);
  });
  ASSERT_EQ(found.size(), 8U);
  int suppressed = 0;
  for (const auto& one : found) {
    const auto at = one.find("suppressed=");
    if (at != std::string::npos) suppressed += std::stoi(one.substr(at + 11));
  }
  EXPECT_EQ(suppressed, kThreads * kEach - 7);
}

}  // namespace
}  // namespace sluice::server
