#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/logging/log.h"
#include "server/logging/testing_pipe.h"
#include "sluice/rule_set.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

RuleSet three_limits() {
  return RuleSet::parse(
             "version: 1\n"
             "rules:\n"
             "  - name: trial\n"
             "    mode: shadow\n"
             "    continue: true\n"
             "    limits: [{ name: x, algorithm: gcra, limit: 1, per: 1s }]\n"
             "  - name: order\n"
             "    limits:\n"
             "      - { name: global, algorithm: gcra, limit: 1, per: 1s }\n"
             "      - { name: user, algorithm: gcra, limit: 1, per: 1s }\n",
             "test")
      .value();
}

Decision denied(Reason reason, std::optional<Duration> wait) {
  Decision decision;
  decision.outcome = Outcome::kDenied;
  decision.reason = reason;
  decision.retry_after = wait;
  return decision;
}

class Denials : public ::testing::Test {
 protected:
  Denials() { answer_.rule = &order_; }

  // The limit `index` of a rule denies (or allows), with this key.
  void add(const Rule& rule, std::size_t index, std::string_view key, const Decision& decision) {
    answer_.limits.push_back({&rule, &rule.limits[index], {}, key, decision});
    if (!decision.allowed()) answer_.decision = decision;
  }
  // The lines without time and level, after `write` has written to a denial log.
  template <class Write>
  std::vector<std::string> lines(const LogOptions& options, Write write) {
    TestingPipe pipe;
    {
      Log log(options, pipe.writing());
      DenialLog denials(log, &clock_);
      write(denials);
    }
    auto found = pipe.lines();
    for (auto& line : found) line = line.substr(line.find(" info ") + 6);
    return found;
  }
  std::string line(const LogOptions& options = {}) {
    const auto found = lines(options, [&](DenialLog& denials) { denials.write(answer_); });
    return found.size() == 1 ? found[0] : std::to_string(found.size()) + " lines";
  }

  const RuleSet rules_ = three_limits();
  const Rule& trial_ = rules_.rules()[0];
  const Rule& order_ = rules_.rules()[1];
  RuleAnswer answer_;
  testing::ManualClock clock_;
};

const Decision kLimited = denied(Reason::kLimited, microseconds{1500});

TEST_F(Denials, TellRuleLimitKeyReasonAndWaitRoundedUp) {
  add(order_, 1, "u1", denied(Reason::kLimited, microseconds{1001}));
  EXPECT_EQ(line(), "denied rule=order limit=user key=u1 reason=limited retry_after_ms=2");
}

TEST_F(Denials, WithoutARuleTellKeyReasonAndWait) {
  const auto write = [&](DenialLog& denials) {
    denials.write("a key", kLimited);
    denials.write("another", Decision{});
    denials.write("third", denied(Reason::kNever, {}));
    denials.write("fourth", kLimited);
  };
  EXPECT_EQ(lines({.denials_per_second = 2}, write),
            (std::vector<std::string>{"denied key=\"a key\" reason=limited retry_after_ms=2",
                                      "denied key=third reason=never"}));
  EXPECT_EQ(lines({.keys = LogKeys::kNone, .denials_per_second = 1}, write),
            (std::vector<std::string>{"denied reason=limited retry_after_ms=2"}));
}

TEST_F(Denials, AreOneObjectALineInJson) {
  add(order_, 1, "a \"b\"\n\xff", kLimited);
  const auto found =
      lines({.format = LogFormat::kJson}, [&](DenialLog& denials) { denials.write(answer_); });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].ends_with(
      "\"level\":\"info\",\"message\":\"denied\",\"rule\":\"order\",\"limit\":\"user\","
      "\"key\":\"a \\\"b\\\"\\n\uFFFD\",\"reason\":\"limited\",\"retry_after_ms\":2}"))
      << found[0];
}

TEST_F(Denials, TellTheLimitWithTheLongestWaitOfThoseThatDenied) {
  add(order_, 0, "", Decision{});
  add(order_, 0, "", denied(Reason::kLimited, seconds{1}));
  add(order_, 1, "u1", denied(Reason::kLimited, seconds{2}));
  add(trial_, 0, "t", denied(Reason::kLimited, seconds{3}));
  EXPECT_EQ(line().substr(0, 31), "denied rule=order limit=user ke");
}

TEST_F(Denials, CountNeverAsTheLongest) {
  add(order_, 0, "", denied(Reason::kLimited, seconds{100000}));
  add(order_, 1, "u1", denied(Reason::kNever, {}));
  EXPECT_EQ(line(), "denied rule=order limit=user key=u1 reason=never");
}

TEST_F(Denials, AreToldAlsoWhereNoLimitDenied) {
  answer_.decision = denied(Reason::kFallback, {});
  EXPECT_EQ(line(), "denied rule=order reason=fallback");
  answer_.rule = nullptr;
  answer_.decision = denied(Reason::kInvalid, {});
  EXPECT_EQ(line(), "denied reason=invalid");
}

TEST_F(Denials, HashKeysOrLeaveThemOut) {
  add(order_, 1, "secret", kLimited);
  EXPECT_EQ(line({.keys = LogKeys::kNone}),
            "denied rule=order limit=user reason=limited retry_after_ms=2");
  const auto found = lines({.keys = LogKeys::kHash}, [&](DenialLog& denials) {
    denials.write(answer_);
    denials.write(answer_);
    answer_.limits[0].label = "other";
    denials.write(answer_);
  });
  ASSERT_EQ(found.size(), 3U);
  const std::string start = "denied rule=order limit=user key=";
  ASSERT_TRUE(found[0].starts_with(start));
  EXPECT_EQ(found[0].find(" reason="), start.size() + 16) << "16 digits";
  EXPECT_EQ(found[0].find("secret"), std::string::npos);
  EXPECT_EQ(found[0], found[1]) << "so that one can tell who is denied again and again";
  EXPECT_NE(found[0], found[2]);
  answer_.limits[0].label = "secret";
  EXPECT_NE(line({.keys = LogKeys::kHash}), found[0]) << "the secret is new";
}

TEST_F(Denials, CutLongKeys) {
  const std::string key(40'000, 'k');
  add(order_, 1, key, kLimited);
  EXPECT_EQ(line(), "denied rule=order limit=user key=" + std::string(1024, 'k') +
                        "… reason=limited retry_after_ms=2");
}

TEST_F(Denials, LeaveOutAllowedRequestsAndThoseOfRulesOnTrial) {
  add(trial_, 0, "t", kLimited);
  answer_.decision = Decision{};
  answer_.decision.reason = Reason::kShadow;
  EXPECT_EQ(line(), "0 lines");
}

TEST_F(Denials, ComeAtABoundedRateAndTheNextTellsHowManyWereSuppressed) {
  add(order_, 1, "u1", kLimited);
  clock_.set(Instant{seconds{1'000'000}});
  const auto found = lines({.denials_per_second = 3}, [&](DenialLog& denials) {
    for (int i = 0; i < 10; ++i) denials.write(answer_);
    clock_.advance(microseconds{999'999});
    for (int i = 0; i < 5; ++i) denials.write(answer_);
    clock_.advance(microseconds{1});
    for (int i = 0; i < 4; ++i) denials.write(answer_);
    clock_.advance(seconds{1});
    denials.write(answer_);
    clock_.advance(seconds{1});
    denials.write(answer_);
  });
  const std::string plain = "denied rule=order limit=user key=u1 reason=limited retry_after_ms=2";
  EXPECT_EQ(found, (std::vector<std::string>{plain, plain, plain, plain + " suppressed=12", plain,
                                             plain, plain + " suppressed=1", plain}));
}

TEST_F(Denials, AreNotToldWhereTheRateIsNoneOrTheLevelIsHigher) {
  add(order_, 1, "u1", kLimited);
  EXPECT_EQ(line({.denials_per_second = 0}), "0 lines");
  EXPECT_EQ(line({.level = LogLevel::kWarning}), "0 lines");
}

TEST_F(Denials, OfSeveralThreadsAreToldOrCountedOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  add(order_, 1, "u1", kLimited);
  const auto found = lines({.denials_per_second = 7}, [&](DenialLog& denials) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < kEach; ++n) denials.write(answer_);
      });
    }
    for (auto& thread : threads) thread.join();
    clock_.advance(seconds{1});
    denials.write(answer_);
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
