#include "envoy/decide.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "envoy/test_config.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::envoy {
namespace {

using namespace std::chrono_literals;

// A store that forwards or fails, and counts its calls.
class TestStore final : public Store {
 public:
  explicit TestStore(Store& store) : store_(store) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    if (!fails) return store_.apply(action, charges, now, each);
    std::fill(each.begin(), each.end(), failure());
    return failure();
  }
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override {
    ++asked;
    return fails ? failure() : store_.apply_one(action, charge, now);
  }

  bool fails = false;
  int asked = 0;

 private:
  static Decision failure() { return Decision::refused(Reason::kStoreTimeout); }
  Store& store_;
};

// Requests on the memory store. The time is 30 s after the start of a minute, hour, day and so on.
class DecideTest : public ::testing::Test {
 protected:
  // A request for one descriptor that owns its texts.
  struct Ask {
    std::vector<Entry> entries;
    std::uint64_t hits = 1;
    bool gives_back = false;
    std::optional<std::uint32_t> requests_per_unit = {};
    Unit unit = Unit::kUnknown;
  };

  void use(std::string_view yaml) { config_ = config_of(yaml); }
  const Answer& decide(const std::vector<Ask>& asks) {
    std::vector<Question> questions;
    for (const Ask& ask : asks) {
      questions.push_back({ask.entries, ask.hits, ask.gives_back, ask.requests_per_unit, ask.unit});
    }
    return request_.decide(*config_.domains().front(), questions, consume_on_reject_);
  }
  bool passes(const std::vector<Ask>& asks) { return !decide(asks).is_over; }
  // Returns what remains of that descriptor's limit, without taking anything.
  std::uint64_t left(const std::vector<Entry>& entries) {
    return decide({{entries, 0}}).statuses[0].remaining;
  }

  testing::ManualClock clock_{Instant{365 * 24h + 30s}};
  MemoryStore memory_{{}, clock_};
  MemoryStore local_{{}, clock_};
  TestStore store_{memory_};
  Limiter limiter_{store_};
  bool consume_on_reject_ = false;
  Config config_;
  Request request_{limiter_, {nullptr, &local_}, clock_};
};

constexpr std::string_view kUserAndPath = R"(
domain: d
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: path, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: free }
)";

TEST_F(DecideTest, FillsInTheStatusOfALimit) {
  use(kUserAndPath);
  const Answer& answer = decide({{{{"user", "anna"}}}});
  EXPECT_EQ(answer.failure, Reason::kOk);
  EXPECT_FALSE(answer.is_over);
  const Status& status = answer.statuses.at(0);
  EXPECT_FALSE(status.is_over);
  EXPECT_EQ(status.remaining, 2U);
  EXPECT_EQ(status.until_reset, 30s);
  EXPECT_EQ(status.limit->limit(), 3U);
  EXPECT_EQ(status.unit, Unit::kMinute);
  EXPECT_EQ(status.counter, "d||user=anna");
}

TEST_F(DecideTest, FloodOfKeysOfOneDescriptorDoesNotReleaseThoseThatAnotherDenies) {
  use(R"(
domain: d
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: path, rate_limit: { unit: minute, requests_per_unit: 1 } }
)");
  MemoryStore store({.max_keys = 1000}, clock_);
  Limiter limiter(store);
  Request request(limiter, {}, clock_);
  const auto ask = [&](std::string_view key, int value) {
    const std::string text = std::to_string(value);
    const std::vector<Entry> entries{{key, text}};
    const Question question{entries};
    return request.decide(*config_.domains().front(), {&question, 1}, false).is_over;
  };
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(ask("user", i));
  for (int i = 0; i < 10000; ++i) EXPECT_FALSE(ask("path", i));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(ask("user", i)) << i;
}

TEST_F(DecideTest, ReportsNoLimitIfNoneApplies) {
  use(kUserAndPath);
  const Answer& answer = decide({{{{"free", "x"}}}, {{{"unknown", "x"}}}, {{}}});
  ASSERT_EQ(answer.statuses.size(), 3U);
  for (const Status& status : answer.statuses) {
    EXPECT_FALSE(status.is_over);
    EXPECT_FALSE(status.limit.has_value());
  }
  EXPECT_EQ(store_.asked, 0);
}

TEST_F(DecideTest, StartsANewWindowAtTheFullMinute) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"path", "/"}}, 2}}));
  EXPECT_FALSE(passes({{{{"path", "/"}}}}));
  clock_.advance(29999999us);
  EXPECT_FALSE(passes({{{{"path", "/"}}}}));
  EXPECT_EQ(decide({{{{"path", "/"}}}}).statuses[0].until_reset, 1s);
  clock_.advance(1us);
  const Answer& answer = decide({{{{"path", "/"}}}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_EQ(answer.statuses[0].until_reset, 60s);
}

TEST_F(DecideTest, ReportsTheTimeUntilTheWindowEndsForEveryUnit) {
  const Instant now{1234567890s + 123456us};
  clock_.set(now);
  for (const Unit unit : {Unit::kSecond, Unit::kMinute, Unit::kHour, Unit::kDay, Unit::kMonth,
                          Unit::kYear, Unit::kWeek}) {
    use("domain: d\ndescriptors: [ { key: k, rate_limit: { requests_per_unit: 9, unit: " +
        std::string(to_string(unit)) + " } } ]");
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(length_of(unit));
    for (const std::uint64_t hits : {1, 100}) {
      EXPECT_EQ(decide({{{{"k", std::string(to_string(unit))}}, hits}}).statuses[0].until_reset,
                seconds - 1234567890s % seconds)
          << to_string(unit);
    }
  }
}

TEST_F(DecideTest, TakesNothingIfOneDescriptorIsOverItsLimit) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"path", "/"}}, 2}}));
  const Answer& answer = decide({{{{"user", "anna"}}}, {{{"path", "/"}}}});
  EXPECT_TRUE(answer.is_over);
  EXPECT_FALSE(answer.statuses[0].is_over);
  EXPECT_EQ(answer.statuses[0].remaining, 3U);
  EXPECT_EQ(answer.statuses[0].until_reset, 30s);
  EXPECT_TRUE(answer.statuses[1].is_over);
  EXPECT_EQ(left({{"user", "anna"}}), 3U);
}

TEST_F(DecideTest, CountsTheSameDescriptorTwiceInOneRequest) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"user", "anna"}}}, {{{"user", "anna"}}}}));
  EXPECT_EQ(left({{"user", "anna"}}), 1U);
  EXPECT_FALSE(passes({{{{"user", "anna"}}}, {{{"user", "anna"}}}}));
  EXPECT_EQ(left({{"user", "anna"}}), 1U);
}

TEST_F(DecideTest, APeekTakesNothingAndIsNeverOverTheLimit) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"path", "/"}}, 2}}));
  const Answer& answer = decide({{{{"path", "/"}}, 0}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_EQ(answer.statuses[0].remaining, 0U);
}

TEST_F(DecideTest, TakesTheHitsOfEachDescriptor) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"user", "a"}}, 3}, {{{"path", "/"}}, 1}}));
  EXPECT_EQ(left({{"user", "a"}}), 0U);
  EXPECT_EQ(left({{"path", "/"}}), 1U);
}

TEST_F(DecideTest, DeniesAnyNumberOfHitsAboveTheLimit) {
  use("domain: d\ndescriptors: [ { key: k, rate_limit: { unit: day, requests_per_unit: "
      "4294967295 } } ]");
  for (const std::uint64_t hits : {std::uint64_t{1} << 32, std::uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_FALSE(passes({{{{"k", ""}}, hits}})) << hits;
    EXPECT_FALSE(passes({{{{"k", ""}}, hits}, {{{"k", ""}}, hits}})) << hits;
  }
  EXPECT_TRUE(passes({{{{"k", ""}}, 4294967295}}));
}

TEST_F(DecideTest, GivesBackNegativeHits) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"user", "a"}}, 3}}));
  const Answer& answer = decide({{{{"user", "a"}}, 2, true}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_EQ(answer.statuses[0].remaining, 2U);
  EXPECT_EQ(decide({{{{"user", "a"}}, UINT64_MAX, true}}).statuses[0].remaining, 3U);
}

TEST_F(DecideTest, GivesNothingBackIfTheRequestIsDenied) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"user", "a"}}, 3}, {{{"path", "/"}}, 2}}));
  const Answer& answer = decide({{{{"user", "a"}}, 2, true}, {{{"path", "/"}}}});
  EXPECT_TRUE(answer.is_over);
  EXPECT_FALSE(answer.statuses[0].is_over);
  EXPECT_EQ(answer.statuses[0].remaining, 0U);
}

TEST_F(DecideTest, BansWithALimitOfZero) {
  use("domain: d\ndescriptors: [ { key: k, rate_limit: { unit: minute, requests_per_unit: 0 } } ]");
  const Answer& answer = decide({{{{"k", ""}}}});
  EXPECT_TRUE(answer.is_over);
  EXPECT_EQ(answer.statuses[0].limit->limit(), 0U);
  EXPECT_EQ(answer.statuses[0].until_reset, 30s);
}

TEST_F(DecideTest, AllowsUnlimitedDescriptorsWithoutCounting) {
  use("domain: d\ndescriptors: [ { key: k, rate_limit: { unlimited: true } } ]");
  const Answer& answer = decide({{{{"k", ""}}, UINT64_MAX}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_TRUE(answer.statuses[0].unlimited);
  EXPECT_EQ(store_.asked, 0);
}

TEST_F(DecideTest, DropsALimitThatAnotherLimitOfTheRequestReplaces) {
  use(R"(
domain: d
descriptors:
  - { key: read, rate_limit: { name: read, unit: minute, requests_per_unit: 1 } }
  - { key: big, rate_limit: { unit: minute, requests_per_unit: 9, replaces: [ { name: read } ] } }
  - { key: free, rate_limit: { unlimited: true, replaces: [ { name: read } ] } }
)");
  for (int i = 0; i < 3; ++i) {
    const Answer& answer = decide({{{{"read", ""}}}, {{{"big", ""}}}});
    EXPECT_FALSE(answer.is_over);
    EXPECT_FALSE(answer.statuses[0].limit.has_value());
    EXPECT_TRUE(passes({{{{"free", ""}}}, {{{"read", ""}}}}));
  }
  EXPECT_EQ(left({{"read", ""}}), 1U);
  EXPECT_TRUE(passes({{{{"read", ""}}}}));
  EXPECT_FALSE(passes({{{{"read", ""}}}}));
}

// As in Envoy's service, a limit that is itself dropped still replaces others.
TEST_F(DecideTest, DropsTheLimitsThatAReplacedLimitReplaces) {
  use(R"(
domain: d
descriptors:
  - { key: a, rate_limit: { name: a, unit: minute, requests_per_unit: 0 } }
  - key: b
    rate_limit: { name: b, unit: minute, requests_per_unit: 0, replaces: [ { name: a } ] }
  - key: c
    rate_limit: { name: c, unit: minute, requests_per_unit: 9, replaces: [ { name: b } ] }
)");
  EXPECT_FALSE(passes({{{{"a", ""}}}, {{{"b", ""}}}}));
  const Answer& answer = decide({{{{"a", ""}}}, {{{"c", ""}}}, {{{"b", ""}}}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_FALSE(answer.statuses[0].limit.has_value());
  EXPECT_EQ(answer.statuses[1].remaining, 8U);
  EXPECT_FALSE(answer.statuses[2].limit.has_value());
}

TEST_F(DecideTest, CountsAndAllowsInShadowMode) {
  use(R"(
domain: d
descriptors:
  - { key: trial, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: real, rate_limit: { unit: minute, requests_per_unit: 1 } }
)");
  EXPECT_TRUE(passes({{{{"trial", ""}}}, {{{"real", ""}}}}));
  const Answer& answer = decide({{{{"trial", ""}}}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_FALSE(answer.statuses[0].is_over);
  EXPECT_EQ(answer.statuses[0].remaining, 0U);
  EXPECT_FALSE(answer.statuses[0].decision.allowed());
  clock_.advance(1min);
  EXPECT_TRUE(passes({{{{"real", ""}}}}));
  EXPECT_FALSE(passes({{{{"trial", ""}}}, {{{"real", ""}}}}));
  EXPECT_EQ(left({{"trial", ""}}), 0U);  // it is counted nevertheless
}

constexpr std::string_view kQuota = R"(
domain: d
descriptors:
  - { key: q1, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: q2, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: hard, rate_limit: { unit: minute, requests_per_unit: 3 } }
)";

TEST_F(DecideTest, IsOverInQuotaModeOnlyIfAllQuotasAre) {
  use(kQuota);
  EXPECT_TRUE(passes({{{{"q1", ""}}}, {{{"q2", ""}}}}));
  const Answer& answer = decide({{{{"q1", ""}}}, {{{"q2", ""}}}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_TRUE(answer.statuses[0].is_over);
  EXPECT_FALSE(answer.statuses[1].is_over);
  EXPECT_EQ(answer.statuses[1].remaining, 0U);
  EXPECT_FALSE(passes({{{{"q1", ""}}}, {{{"q2", ""}}}}));
  EXPECT_FALSE(passes({{{{"q1", ""}}}}));
}

TEST_F(DecideTest, UsesTheLimitOfTheRequestInsteadOfTheFiles) {
  use(kUserAndPath);
  const Answer& answer = decide({{{{"path", "/"}}, 1, false, 1, Unit::kHour}});
  EXPECT_FALSE(answer.is_over);
  EXPECT_EQ(answer.statuses[0].limit->limit(), 1U);
  EXPECT_EQ(answer.statuses[0].unit, Unit::kHour);
  EXPECT_EQ(answer.statuses[0].until_reset, 3570s);
  EXPECT_FALSE(passes({{{{"path", "/"}}, 1, false, 1, Unit::kHour}}));
  EXPECT_TRUE(passes({{{{"path", "/"}}}}));
  EXPECT_TRUE(passes({{{{"of no file", "/"}}, 1, false, 1, Unit::kHour}}));
  EXPECT_FALSE(passes({{{{"of no file", "/"}}, 1, false, 1, Unit::kHour}}));
}

TEST_F(DecideTest, KeepsTheCounterIfTheLimitOfTheRequestChanges) {
  use(kUserAndPath);
  EXPECT_TRUE(passes({{{{"x", ""}}, 2, false, 4, Unit::kDay}}));
  EXPECT_TRUE(passes({{{{"x", ""}}, 1, false, 3, Unit::kDay}}));
  EXPECT_FALSE(passes({{{{"x", ""}}, 1, false, 3, Unit::kDay}}));
}

TEST_F(DecideTest, RefusesTwoLimitsOnOneCounterInOneRequest) {
  use(kUserAndPath);
  const Answer& answer =
      decide({{{{"x", ""}}, 1, false, 4, Unit::kDay}, {{{"x", ""}}, 1, false, 5, Unit::kDay}});
  EXPECT_EQ(answer.failure, Reason::kInvalid);
  EXPECT_EQ(answer.message,
            "descriptors[1].limit differs from that of descriptors[0] with the same entries; "
            "expected the same");
  EXPECT_TRUE(
      passes({{{{"x", ""}}, 1, false, 4, Unit::kDay}, {{{"x", ""}}, 1, false, 4, Unit::kHour}}));
}

TEST_F(DecideTest, RefusesInvalidRequests) {
  use(kUserAndPath);
  EXPECT_EQ(decide({}).message, "descriptors are missing; expected at least one");
  EXPECT_EQ(decide({{{{"a", ""}, {"", "x"}}}}).message,
            "descriptors[0].entries[1].key is empty; expected a key");
  EXPECT_EQ(decide({{{{"a", ""}}, 1, false, 1, Unit::kUnknown}}).message,
            "descriptors[0].limit.unit is unknown; expected SECOND to YEAR");
  EXPECT_EQ(decide(std::vector<Ask>(1025)).message, "1025 descriptors; expected at most 1024");
  EXPECT_EQ(decide(std::vector<Ask>(65, {{{"user", "a"}}})).message,
            "65 descriptors with a limit; expected at most 64");
  EXPECT_EQ(request_.decide(*config_.find("d"), {}).failure, Reason::kInvalid);
  EXPECT_EQ(store_.asked, 0);
}

TEST_F(DecideTest, ConsumesOnRejectIfConfigured) {
  use(kUserAndPath);
  consume_on_reject_ = true;
  EXPECT_TRUE(passes({{{{"path", "/"}}, 2}}));
  EXPECT_FALSE(passes({{{{"user", "a"}}}, {{{"path", "/"}}}}));
  EXPECT_EQ(left({{"user", "a"}}), 2U);
  const Answer& answer = decide({{{{"user", "a"}}, 5}});
  EXPECT_TRUE(answer.is_over);
  EXPECT_EQ(answer.statuses[0].remaining, 0U);
}

// A client that charges at the end of a stream and peeks before the next one, as the scripts
// token-quota.sh and multiservice-tokenquota.sh of Envoy's own service do.
TEST_F(DecideTest, APeekIsOverOnceTheCounterIsPastItsLimitIfItConsumesOnReject) {
  use(kUserAndPath);
  consume_on_reject_ = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(passes({{{{"path", "/"}}, 0}})) << i;
    EXPECT_EQ(passes({{{{"path", "/"}}, 1}}), i < 2) << i;
  }
  const Answer& look = decide({{{{"path", "/"}}, 0}});
  EXPECT_TRUE(look.statuses[0].is_over);
  EXPECT_FALSE(look.statuses[0].decision.allowed());
  EXPECT_EQ(look.statuses[0].remaining, 0U);
  EXPECT_EQ(look.statuses[0].until_reset, 30s);
  EXPECT_TRUE(passes({{{{"user", "a"}}, 0}}));
  EXPECT_FALSE(passes({{{{"user", "a"}}, 100}}));
  EXPECT_FALSE(passes({{{{"user", "a"}}, 0}}));
}

constexpr std::string_view kPolicies = R"(
domain: d
descriptors:
  - { key: allow, rate_limit: { unit: minute, requests_per_unit: 1, on_store_error: allow } }
  - { key: deny, rate_limit: { unit: minute, requests_per_unit: 1, on_store_error: deny } }
  - { key: local, rate_limit: { unit: minute, requests_per_unit: 1, on_store_error: local } }
  - { key: error, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: trial, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
)";

TEST_F(DecideTest, FallsBackByPolicyIfTheStoreFails) {
  use(kPolicies);
  store_.fails = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(passes({{{{"allow", ""}}}}));
    EXPECT_EQ(decide({{{{"allow", ""}}}}).statuses[0].remaining, 1U);
    EXPECT_FALSE(passes({{{{"deny", ""}}}, {{{"local", ""}}}}));
    EXPECT_TRUE(passes({{{{"trial", ""}}}}));
    const Answer& answer = decide({{{{"allow", ""}}}, {{{"error", ""}}}, {{{"deny", ""}}}});
    EXPECT_EQ(answer.failure, Reason::kStoreTimeout);
    EXPECT_EQ(answer.message, "the store could not decide: store_timeout");
  }
  EXPECT_TRUE(passes({{{{"local", ""}}}}));
  EXPECT_FALSE(passes({{{{"local", ""}}}}));
}

TEST_F(DecideTest, TheLocalPolicyIsUnavailableWithoutALocalStore) {
  use(kPolicies);
  store_.fails = true;
  Request request(limiter_, {}, clock_);
  const std::vector<Entry> entries{{"local", ""}};
  const Question question{.entries = entries};
  EXPECT_EQ(request.decide(*config_.find("d"), {&question, 1}).failure, Reason::kStoreTimeout);
}

TEST_F(DecideTest, ARequestThatNeedsNoStoreDoesNotFail) {
  use(kPolicies);
  store_.fails = true;
  EXPECT_TRUE(passes({{{{"unknown", ""}}}}));
}

TEST_F(DecideTest, AFailedRefundIsAnErrorOnlyByPolicy) {
  use(kPolicies);
  store_.fails = true;
  EXPECT_TRUE(passes({{{{"allow", ""}}, 1, true}}));
  EXPECT_EQ(decide({{{{"error", ""}}, 1, true}}).failure, Reason::kStoreTimeout);
}

TEST_F(DecideTest, LimitsByOtherAlgorithms) {
  use("domain: d\ndescriptors: [ { key: k, rate_limit: { algorithm: token_bucket, period: 10s, "
      "requests_per_unit: 1, burst: 2 } } ]");
  EXPECT_TRUE(passes({{{{"k", ""}}, 2}}));
  const Answer& answer = decide({{{{"k", ""}}}});
  EXPECT_TRUE(answer.is_over);
  EXPECT_EQ(answer.statuses[0].until_reset, 20s);
  clock_.advance(10s);
  EXPECT_TRUE(passes({{{{"k", ""}}}}));
}

// Compares random requests with a model of plain numbers: all or nothing, in every window.
TEST_F(DecideTest, TakesAllOfARequestOrNothing) {
  use(R"(
domain: d
descriptors:
  - { key: a, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: b, rate_limit: { unit: minute, requests_per_unit: 8 } }
  - { key: c, value: "x*", share_threshold: true,
      rate_limit: { unit: minute, requests_per_unit: 13 } }
)");
  std::mt19937 random(7);
  const std::string_view keys[] = {"a", "b", "c"};
  const std::string_view values[] = {"x1", "x2"};
  const std::uint64_t limits[] = {5, 8, 13};
  std::map<std::string, std::uint64_t> used;
  for (int step = 0; step < 3000; ++step) {
    if (random() % 16 == 0) {
      clock_.advance(1min);
      used.clear();
    }
    std::vector<Ask> asks;
    std::map<std::string, std::uint64_t> wanted;
    bool fits = true;
    for (std::size_t n = 1 + random() % 4; n > 0; --n) {
      const std::size_t key = random() % 3;
      const std::string_view value = values[random() % 2];
      const std::uint64_t hits = random() % 4;
      asks.push_back({{{keys[key], value}}, hits});
      const std::string name = std::string(keys[key]) + (key == 2 ? "" : std::string(value));
      wanted[name] += hits;
      fits = fits && (wanted[name] == 0 || used[name] + wanted[name] <= limits[key]);
    }
    const Answer& answer = decide(asks);
    ASSERT_EQ(answer.is_over, !fits) << step;
    for (std::size_t i = 0; i < asks.size(); ++i) {
      const Entry& entry = asks[i].entries[0];
      const std::size_t key = static_cast<std::size_t>(entry.key[0] - 'a');
      const std::string name = std::string(entry.key) + (key == 2 ? "" : std::string(entry.value));
      const std::uint64_t after = used[name] + (fits ? wanted[name] : 0);
      ASSERT_EQ(answer.statuses[i].remaining, limits[key] - after) << step;
    }
    if (fits) {
      for (const auto& [name, hits] : wanted) used[name] += hits;
    }
  }
}

}  // namespace
}  // namespace sluice::envoy
