#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/memory_store.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

RuleSet parse(std::string_view yaml) {
  auto rules = RuleSet::parse(yaml, "f");
  if (!rules) throw std::invalid_argument(rules.error().front().to_string());
  return *rules;
}

// Returns a file with a version, a domain and these rules. Each rule is given by its keys.
RuleSet rules_of(const std::vector<std::string>& rules) {
  std::string yaml = "version: 1\ndomain: d\nrules:\n";
  for (const std::string& rule : rules) yaml += "  - { " + rule + " }\n";
  return parse(yaml);
}

constexpr const char* kTwo = "algorithm: fixed_window, limit: 2, per: 1h";
constexpr const char* kOne = "algorithm: fixed_window, limit: 1, per: 1h";

std::string limits(const std::string& keys) { return "limits: [ { " + keys + " } ]"; }

// Decides on a memory store at a fixed instant.
class RuleDeciderTest : public ::testing::Test {
 protected:
  const RuleAnswer& decide(const RuleSet& rules, const Attributes& request, std::uint64_t cost = 1,
                           Verb verb = Verb::kTake) {
    return request_.decide(rules, request, cost, kNow, verb);
  }
  static constexpr Instant kNow{Duration{1700000000000000}};

  MemoryStore store_;
  Limiter limiter_{store_};
  RuleDecider request_{limiter_};
};

TEST_F(RuleDeciderTest, AllowsRequestsWithoutARule) {
  const RuleSet rules = rules_of({"name: a, match: { path: /a }, " + limits(kOne)});
  const RuleAnswer& answer = decide(rules, {{"path", "/b"}});
  EXPECT_EQ(answer.decision, Decision{});
  EXPECT_EQ(answer.rule, nullptr);
  EXPECT_TRUE(answer.limits.empty());
  EXPECT_TRUE(answer.matched.empty());
}

TEST_F(RuleDeciderTest, DecidesByTheFirstRuleThatMatches) {
  const RuleSet rules =
      rules_of({"name: a, match: { path: /a }, " + limits(kOne), "name: b, " + limits(kTwo)});
  EXPECT_EQ(decide(rules, {{"path", "/a"}}).rule->name, "a");
  EXPECT_EQ(request_.decide(rules, Attributes{{"path", "/x"}}, 1, kNow).rule->name, "b");
  const RuleAnswer& answer = decide(rules, {{"path", "/a"}});
  EXPECT_FALSE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.reason, Reason::kLimited);
  EXPECT_EQ(answer.decision.retry_after, Duration{1h});
  ASSERT_EQ(answer.matched.size(), 1u);
  EXPECT_TRUE(answer.matched[0].denied);
}

TEST_F(RuleDeciderTest, MatchesIfAllAttributesArePresentAndMatch) {
  const RuleSet rules =
      rules_of({"name: a, match: { method: [GET, HEAD], header.X-Kind: \"*\" }, " + limits(kTwo)});
  EXPECT_NE(decide(rules, {{"method", "HEAD"}, {"header.x-kind", "k"}}).rule, nullptr);
  EXPECT_NE(decide(rules, {{"method", "GET"}, {"header.x-kind", ""}}).rule, nullptr);
  EXPECT_EQ(decide(rules, {{"method", "GET"}}).rule, nullptr);
  EXPECT_EQ(decide(rules, {{"method", "POST"}, {"header.x-kind", "k"}}).rule, nullptr);
}

// Records its requests.
class Witness final : public Store {
 public:
  Decision apply(Action, std::span<const Charge> charges, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    for (const Charge& charge : charges) {
      asked.emplace_back(std::string(charge.tag), std::string(charge.key));
    }
    std::fill(each.begin(), each.end(), Decision{});
    return {};
  }
  std::vector<std::pair<std::string, std::string>> asked;
};

TEST(RuleTags, AreThoseOfTheRuleOnEachOfItsCharges) {
  const RuleSet rules = rules_of(
      {"name: a, continue: true, tag: \"{header.x-t}\", limits: [ { name: x, key: \"{ip}\", " +
           std::string(kOne) + " }, { name: y, key: \"{header.x-u}\", " + kTwo + " }, { name: z, " +
           kTwo + " } ]",
       "name: b, continue: true, " + limits("name: x, " + std::string(kOne)),
       "name: c, mode: shadow, tag: \"all {header.x-t}\", " +
           limits("name: x, " + std::string(kOne))});
  Witness store;
  Limiter limiter(store);
  RuleDecider request(limiter);
  const RuleAnswer& answer = request.decide(rules, Attributes{{"ip", "i"}, {"header.x-t", "4|2"}});
  const std::vector<std::pair<std::string, std::string>> expected{
      {"header.x-t=4%7C2", "d|a|x|ip=i"},
      {"header.x-t=4%7C2", "d|a|z"},
      {"", "d|b|x"},
      {"all |header.x-t=4%7C2", "d|c|x"}};
  EXPECT_EQ(store.asked, expected);
  ASSERT_EQ(answer.limits.size(), 4u);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(answer.limits[i].tag, expected[i].first);
    EXPECT_EQ(answer.limits[i].counter, expected[i].second);
  }
  store.asked.clear();
  request.decide(rules, Attributes{{"ip", "i"}});
  EXPECT_EQ(store.asked.front().first, "header.x-t=");
}

TEST(RulesOnASmallStore, FloodOfKeysOfOneRuleDoesNotReleaseThoseThatAnotherDenies) {
  MemoryStore store({.max_keys = 1000});
  Limiter limiter(store);
  RuleDecider decider(limiter);
  constexpr const char* kOneOfUser = "key: '{user}', algorithm: fixed_window, limit: 1, per: 1h";
  const RuleSet rules = rules_of({"name: login, match: { path: /login }, " + limits(kOneOfUser),
                                  "name: other, " + limits(kOneOfUser)});
  const auto passes = [&](const std::string& path, const std::string& user) {
    const Attributes request{{"path", path}, {"user", user}};
    return decider.decide(rules, request, 1, Instant{1h}).decision.allowed();
  };
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(passes("/login", std::to_string(i)));
  for (int i = 0; i < 10000; ++i) EXPECT_TRUE(passes("/", std::to_string(i)));
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(passes("/login", std::to_string(i))) << i;
}

TEST_F(RuleDeciderTest, SaysTheCounterAndItsLabel) {
  const RuleSet rules = rules_of(
      {"name: a, " + limits("name: per user, key: \"{header.x-user|ip}\", " + std::string(kTwo))});
  const RuleAnswer& answer = decide(rules, {{"ip", "a|b"}});
  ASSERT_EQ(answer.limits.size(), 1u);
  EXPECT_EQ(answer.limits[0].counter, "d|a|per user|ip=a%7Cb");
  EXPECT_EQ(answer.limits[0].label, "a|b");
  EXPECT_EQ(answer.limits[0].rule, rules.find("a"));
  EXPECT_EQ(answer.limits[0].limit, &rules.find("a")->limits[0]);
  EXPECT_EQ(answer.limits[0].decision.remaining, 1u);
}

TEST_F(RuleDeciderTest, AnswersOutliveTheRequestsAttributes) {
  const RuleSet rules = rules_of({"name: a, " + limits("key: \"{ip}\", " + std::string(kTwo))});
  const RuleAnswer* answer = nullptr;
  {
    const Attributes request{{"ip", "a value that is long enough for the heap"}};
    answer = &decide(rules, request);
  }
  EXPECT_EQ(answer->limits[0].label, "a value that is long enough for the heap");
}

TEST_F(RuleDeciderTest, CountsDifferentUsersApart) {
  const RuleSet rules = rules_of({"name: a, " + limits("key: \"{ip}\", " + std::string(kOne))});
  EXPECT_TRUE(decide(rules, {{"ip", "1"}}).decision.allowed());
  EXPECT_FALSE(decide(rules, {{"ip", "1"}}).decision.allowed());
  EXPECT_TRUE(decide(rules, {{"ip", "2"}}).decision.allowed());
}

TEST_F(RuleDeciderTest, TakesFromAllLimitsOrNone) {
  const RuleSet rules = parse(R"(
version: 1
rules:
  - name: a
    limits:
      - { name: many, algorithm: fixed_window, limit: 10, per: 1h }
      - { name: few, key: "{ip}", algorithm: fixed_window, limit: 1, per: 1h }
)");
  EXPECT_TRUE(decide(rules, {{"ip", "1"}}).decision.allowed());
  const RuleAnswer& denied = decide(rules, {{"ip", "1"}});
  EXPECT_FALSE(denied.decision.allowed());
  EXPECT_TRUE(denied.limits[0].decision.allowed());
  EXPECT_FALSE(denied.limits[1].decision.allowed());
  EXPECT_EQ(decide(rules, {{"ip", "2"}}).limits[0].decision.remaining, 8u);
}

TEST_F(RuleDeciderTest, ContinuesAfterARuleWithContinue) {
  const RuleSet rules = rules_of({"name: a, continue: true, " + limits(kTwo),
                                  "name: b, " + limits(kOne), "name: c, " + limits(kOne)});
  EXPECT_EQ(decide(rules, {}).matched.size(), 2u);
  const RuleAnswer& answer = decide(rules, {});
  EXPECT_FALSE(answer.decision.allowed());
  EXPECT_EQ(answer.rule->name, "b");
  EXPECT_FALSE(answer.matched[0].denied);
  EXPECT_TRUE(answer.matched[1].denied);
  EXPECT_EQ(answer.limits[0].decision.remaining, 1u) << "a denied request took from the first rule";
}

TEST_F(RuleDeciderTest, TriesRulesOutWithoutDenying) {
  const RuleSet rules = rules_of(
      {"name: t, mode: shadow, continue: true, " + limits(kOne), "name: b, " + limits(kTwo)});
  EXPECT_EQ(decide(rules, {}).decision.reason, Reason::kOk);
  const RuleAnswer& second = decide(rules, {});
  EXPECT_TRUE(second.decision.allowed());
  EXPECT_EQ(second.decision.reason, Reason::kShadow);
  EXPECT_EQ(second.decision.capacity, 2u) << "the numbers are those of the enforced rule";
  EXPECT_EQ(second.rule->name, "t");
  EXPECT_TRUE(second.matched[0].denied);
  EXPECT_FALSE(second.limits[0].decision.allowed());
  const RuleAnswer& third = decide(rules, {});
  EXPECT_FALSE(third.decision.allowed());
  EXPECT_EQ(third.rule->name, "b") << "only an enforced rule denies";
}

TEST_F(RuleDeciderTest, TriesOutWhereNothingElseApplies) {
  const RuleSet rules =
      rules_of({"name: t, mode: shadow, " +
                limits("algorithm: leaky_bucket, limit: 1, per: 1s, mode: queue")});
  const RuleAnswer& first = decide(rules, {});
  EXPECT_EQ(first.decision.reason, Reason::kOk);
  EXPECT_EQ(first.decision.capacity, 1u);
  EXPECT_EQ(first.decision.delay, std::nullopt) << "a rule on trial delays nothing";
  const RuleAnswer& second = decide(rules, {});
  EXPECT_TRUE(second.decision.allowed());
  EXPECT_EQ(second.decision.reason, Reason::kShadow);
  EXPECT_EQ(second.decision.retry_after, std::nullopt);
  EXPECT_EQ(second.limits[0].decision.retry_after, Duration{1s});
}

TEST_F(RuleDeciderTest, TriesOutApartFromWhatIsDenied) {
  const RuleSet rules = rules_of(
      {"name: b, continue: true, " + limits(kOne), "name: t, mode: shadow, " + limits(kTwo)});
  EXPECT_TRUE(decide(rules, {}).decision.allowed());
  const RuleAnswer& second = decide(rules, {});
  EXPECT_FALSE(second.decision.allowed());
  EXPECT_EQ(second.limits[1].decision.remaining, 0u) << "a rule on trial counts by itself";
}

TEST_F(RuleDeciderTest, SkipsLimitsWhoseAttributeIsMissing) {
  const RuleSet rules = parse(R"(
version: 1
rules:
  - name: a
    limits:
      - { key: "{header.x-user}", algorithm: fixed_window, limit: 1, per: 1h }
      - { key: "{ip}", algorithm: fixed_window, limit: 2, per: 1h }
)");
  const RuleAnswer& one = decide(rules, {{"ip", "1"}});
  ASSERT_EQ(one.limits.size(), 1u);
  EXPECT_EQ(one.limits[0].limit->name, "a/1");
  const RuleAnswer& none = decide(rules, {{"header.x-user", ""}});
  EXPECT_EQ(none.decision, Decision{});
  EXPECT_EQ(none.rule->name, "a");
  EXPECT_TRUE(none.limits.empty());
  EXPECT_EQ(none.matched.size(), 1u);
}

TEST_F(RuleDeciderTest, DeniesForAMissingAttributeBeforeTakingAnything) {
  const RuleSet rules = parse(R"(
version: 1
rules:
  - name: first
    continue: true
    limits: [ { algorithm: fixed_window, limit: 2, per: 1h } ]
  - name: trial
    mode: shadow
    continue: true
    limits: [ { algorithm: fixed_window, limit: 2, per: 1h } ]
  - name: insists
    limits:
      - { algorithm: fixed_window, limit: 2, per: 1h }
      - { name: user, key: "{header.x-user}", algorithm: fixed_window, limit: 7, per: 1h, on_missing: deny }
)");
  const RuleAnswer& answer = decide(rules, {});
  EXPECT_FALSE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.reason, Reason::kMissing);
  EXPECT_EQ(answer.decision.retry_after, std::nullopt);
  EXPECT_EQ(answer.rule->name, "insists");
  ASSERT_EQ(answer.limits.size(), 1u);
  EXPECT_EQ(answer.limits[0].limit->name, "user");
  EXPECT_EQ(answer.limits[0].decision.reason, Reason::kMissing);
  EXPECT_EQ(answer.limits[0].decision.capacity, 7u);
  ASSERT_EQ(answer.matched.size(), 3u);
  EXPECT_FALSE(answer.matched[0].denied);
  EXPECT_FALSE(answer.matched[1].denied);
  EXPECT_TRUE(answer.matched[2].denied);
  EXPECT_EQ(store_.stats().keys, 0u);
}

TEST_F(RuleDeciderTest, AShadowRuleWithAMissingAttributeOnlyReportsIt) {
  const RuleSet rules = parse(R"(
version: 1
rules:
  - name: trial
    mode: shadow
    continue: true
    limits: [ { key: "{header.x}", algorithm: fixed_window, limit: 2, per: 1h, on_missing: deny } ]
  - name: first
    limits: [ { algorithm: fixed_window, limit: 2, per: 1h } ]
)");
  const RuleAnswer& answer = decide(rules, {});
  EXPECT_TRUE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.reason, Reason::kShadow);
  EXPECT_EQ(answer.rule->name, "trial");
  EXPECT_EQ(answer.limits[0].decision.reason, Reason::kMissing);
  EXPECT_EQ(answer.limits[1].decision.remaining, 1u);
}

TEST_F(RuleDeciderTest, PassesCostsAndVerbsOn) {
  const RuleSet rules = rules_of({"name: a, " + limits(kTwo)});
  EXPECT_EQ(decide(rules, {}, 3).decision.reason, Reason::kNever);
  EXPECT_EQ(decide(rules, {}, 2, Verb::kPeek).decision.remaining, 0u);
  EXPECT_EQ(decide(rules, {}, 2).decision.remaining, 0u);
  EXPECT_EQ(decide(rules, {}, 1, Verb::kRefund).decision.remaining, 1u);
  EXPECT_EQ(decide(rules, {}, 0, Verb::kReset).decision.remaining, 2u);
}

TEST_F(RuleDeciderTest, KeepsCountersWhenNumbersChange) {
  const Attributes request{{"ip", "1"}};
  const auto with = [](const std::string& keys) {
    return rules_of({"name: a, " + limits("key: \"{ip}\", " + keys)});
  };
  const std::string before(decide(with(kTwo), request).limits[0].counter);
  const RuleAnswer& after = decide(with(kOne), request);
  EXPECT_EQ(after.limits[0].counter, before);
  EXPECT_FALSE(after.decision.allowed());
}

TEST_F(RuleDeciderTest, DecidesByARuleThatIsNamedMatchingOrNot) {
  const RuleSet rules = rules_of({"name: a, match: { path: /a }, continue: true, " + limits(kOne),
                                  "name: b, match: { path: /b }, " + limits(kTwo)});
  const RuleAnswer& answer =
      request_.decide(rules, Attributes{}, 1, kNow, Verb::kTake, rules.find("b"));
  EXPECT_EQ(answer.rule->name, "b");
  EXPECT_EQ(answer.matched.size(), 1u);
  EXPECT_EQ(answer.decision.capacity, 2u);
  EXPECT_EQ(
      request_.decide(rules, Attributes{}, 1, kNow, Verb::kTake, rules.find("a")).matched.size(),
      1u);
}

TEST_F(RuleDeciderTest, ARuleOfAnotherSetIsInvalid) {
  const RuleSet rules = rules_of({"name: a, " + limits(kOne)});
  const RuleSet others = rules_of({"name: a, " + limits(kOne)});
  const RuleAnswer& answer =
      request_.decide(rules, Attributes{}, 1, kNow, Verb::kTake, others.find("a"));
  EXPECT_EQ(answer.decision.reason, Reason::kInvalid);
  EXPECT_FALSE(answer.decision.allowed());
}

TEST_F(RuleDeciderTest, SwitchesBetweenSetsOfRules) {
  const RuleSet one =
      rules_of({"name: a, match: { path: /a }, " + limits("key: \"{ip}\", " + std::string(kTwo))});
  const RuleSet two = rules_of({"name: b, match: { host: h, path: /a, method: GET }, " +
                                limits("key: \"{host}\", " + std::string(kTwo))});
  const Attributes request{{"path", "/a"}, {"host", "h"}, {"method", "GET"}, {"ip", "1"}};
  EXPECT_EQ(decide(one, request).limits[0].label, "1");
  EXPECT_EQ(decide(two, request).limits[0].label, "h");
  EXPECT_EQ(decide(one, request).limits[0].label, "1");
}

TEST_F(RuleDeciderTest, DeniesRequestsWithMoreThan64LimitsAsInvalid) {
  std::string forty = "limits: [ ";
  for (int i = 0; i < 40; ++i) forty += "{ algorithm: fixed_window, limit: 2, per: 1h }, ";
  forty += "]";
  const RuleSet rules =
      rules_of({"name: a, match: { path: /a }, continue: true, " + forty, "name: b, " + forty});
  EXPECT_TRUE(decide(rules, {{"path", "/b"}}).decision.allowed());
  const RuleAnswer& answer = decide(rules, {{"path", "/a"}});
  EXPECT_FALSE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.reason, Reason::kInvalid);
  EXPECT_EQ(answer.limits.size(), 80u);
  EXPECT_EQ(answer.limits[0].decision.reason, Reason::kInvalid);
  EXPECT_EQ(decide(rules, {{"path", "/b"}}).decision.remaining, 0u) << "it took nothing";
}

TEST_F(RuleDeciderTest, AValueThatIsTooLongForAnExpressionIsInvalid) {
  const std::string nine = "['~/b', '~/b', '~/b', '~/b', '~/b', '~/b', '~/b', '~/b', '~/a+']";
  const RuleSet rules =
      rules_of({"name: t, mode: shadow, match: { method: PUT, path: " + nine + " }, action: deny",
                "name: a, match: { method: GET, path: " + nine + " }, action: deny",
                "name: b, match: { path: /a* }, " + limits(kTwo)});
  const std::string longest = "/" + std::string((std::size_t{8} << 20) / 9 - 1, 'a');
  const std::string longer = longest + "a";
  EXPECT_EQ(decide(rules, {{"method", "GET"}, {"path", longest}}).decision.reason,
            Reason::kDenyRule);
  const RuleAnswer& answer = decide(rules, {{"method", "GET"}, {"path", longer}});
  EXPECT_EQ(answer.decision, Decision::refused(Reason::kInvalid));
  EXPECT_EQ(answer.mistake,
            "the attribute 'path' has 932068 bytes, too many for the expressions up to the rule "
            "'a'; expected at most 8192 bytes, or that all expressions together read at most "
            "8388608 bytes of longer values");
  EXPECT_EQ(answer.rule, nullptr);
  const RuleAnswer& other = decide(rules, {{"method", "PUT"}, {"path", longer}});
  EXPECT_TRUE(other.decision.allowed()) << "only a shadow rule would read it";
  EXPECT_EQ(other.rule->name, "b") << "patterns without an expression read any value";
  EXPECT_TRUE(other.mistake.empty());
  const std::string eight = "['~/b', '~/b', '~/b', '~/b', '~/b', '~/b', '~/b', '~/b']";
  const RuleSet both =
      rules_of({"name: t, mode: shadow, match: { path: " + eight + " }, action: deny",
                "name: a, match: { path: '~/a+' }, action: deny"});
  EXPECT_EQ(decide(both, {{"path", longer}}).decision.reason, Reason::kDenyRule)
      << "what a shadow rule reads makes no request invalid";
}

TEST_F(RuleDeciderTest, AnyNumberOfExpressionsReadsAValueOf8KiB) {
  std::string many = "[";
  for (int i = 0; i < 2000; ++i) many += "'~/b', ";
  const RuleSet rules = rules_of({"name: a, match: { path: " + many + "'~/a+'] }, action: deny"});
  const std::string longest = "/" + std::string((std::size_t{8} << 10) - 1, 'a');
  EXPECT_EQ(decide(rules, {{"path", longest}}).decision.reason, Reason::kDenyRule);
  EXPECT_EQ(decide(rules, {{"path", longest + "a"}}).decision.reason, Reason::kInvalid);
}

// A store that cannot decide.
class Failing final : public Store {
 public:
  explicit Failing(Reason reason) : reason_(reason) {}
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    ++asked;
    const Decision failed = Decision::refused(reason_);
    for (Decision& decision : each) decision = failed;
    return failed;
  }
  int asked = 0;

 private:
  Reason reason_;
};

Decision when_store_fails(const std::string& policy, Reason reason) {
  Failing store(reason);
  Limiter limiter(store);
  RuleDecider request(limiter);
  const RuleSet rules = rules_of({"name: a, on_store_error: " + policy + ", " + limits(kTwo)});
  const RuleAnswer& answer = request.decide(rules, Attributes{});
  EXPECT_EQ(answer.matched[0].denied, !answer.decision.allowed());
  EXPECT_EQ(answer.limits[0].decision.outcome, answer.decision.outcome);
  EXPECT_EQ(answer.limits[0].decision.capacity, 2u);
  return answer.decision;
}

TEST(RuleDecider, AnswersByPolicyWhenTheStoreCannotDecide) {
  for (const Reason reason : {Reason::kStoreError, Reason::kStoreTimeout, Reason::kForeignValue}) {
    EXPECT_EQ(when_store_fails("allow", reason), (Decision{.reason = Reason::kFallback}));
    EXPECT_EQ(when_store_fails("deny", reason),
              (Decision{.outcome = Outcome::kDenied, .reason = Reason::kFallback}));
    EXPECT_EQ(when_store_fails("local", reason), Decision::refused(reason));
  }
}

TEST(RuleDecider, TheStrictestPolicyHoldsWhenTheStoreCannotDecide) {
  Failing store(Reason::kStoreTimeout);
  Limiter limiter(store);
  RuleDecider request(limiter);
  const RuleSet rules =
      rules_of({"name: a, on_store_error: allow, continue: true, " + limits(kTwo),
                "name: t, mode: shadow, on_store_error: deny, continue: true, " + limits(kTwo),
                "name: b, on_store_error: deny, " + limits(kTwo)});
  const RuleAnswer& answer = request.decide(rules, Attributes{});
  EXPECT_FALSE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.reason, Reason::kFallback);
  EXPECT_EQ(answer.rule->name, "b");
  EXPECT_FALSE(answer.matched[0].denied);
  EXPECT_TRUE(answer.matched[2].denied);
  EXPECT_EQ(store.asked, 2) << "once for the enforced rules, once for that on trial";
}

TEST_F(RuleDeciderTest, OnlyTheRuleThatMayNotCreateACounterMeetsItsPolicy) {
  const RuleSet rules = rules_of(
      {"name: a, max_new_keys: 2, on_store_error: allow, continue: true, limits: [ { key: "
       "\"{user}\", algorithm: fixed_window, limit: 2, per: 1h }, { name: all, " +
           std::string(kTwo) + " } ]",
       "name: b, limits: [ { key: \"{user}\", algorithm: fixed_window, limit: 3, per: 1h } ]"});
  EXPECT_EQ(rules.rules()[0].max_new_keys, 2u);
  EXPECT_FALSE(rules.rules()[1].max_new_keys);
  EXPECT_EQ(decide(rules, {{"user", "u"}}).decision.reason, Reason::kOk) << "two new counters";
  const RuleAnswer& second = decide(rules, {{"user", "v"}});
  EXPECT_EQ(second.decision.reason, Reason::kFallback);
  EXPECT_TRUE(second.decision.allowed());
  ASSERT_EQ(second.limits.size(), 3u);
  EXPECT_TRUE(second.limits[0].lacks_counter);
  EXPECT_EQ(second.limits[0].decision.reason, Reason::kFallback);
  EXPECT_FALSE(second.limits[1].lacks_counter);
  EXPECT_EQ(second.limits[1].decision.remaining, 0u) << "it exists, so it was charged";
  EXPECT_EQ(second.limits[2].decision.remaining, 2u) << "a rule without a maximum";
  EXPECT_EQ(decide(rules, {{"user", "w"}}).decision.reason, Reason::kLimited);
}

TEST_F(RuleDeciderTest, ReportsChargesAndSettlementsCreateOnlyTheCountersThatTheirRuleMay) {
  const std::string counted = ", count: { on: 4xx } }";
  const RuleSet rules = rules_of(
      {"name: login, max_new_keys: 10, match: { path: /login }, limits: [ { key: \"{user}\", " +
           std::string(kTwo) + counted + ", { key: \"{ip}\", " + kTwo + counted + " ]",
       "name: work, max_new_keys: 10, " + limits("key: \"{user}\", " + std::string(kTwo))});
  const Attributes failed{{"status", "401"}};
  const auto user = [](int i, const char* path) {
    return Attributes{{"user", std::to_string(i)}, {"ip", "192.0.2.1"}, {"path", path}};
  };
  for (int i = 0; i < 500; ++i) {
    const RuleAnswer& answer = request_.report(rules, user(i, "/login"), failed, 1, kNow);
    EXPECT_EQ(answer.limits[0].lacks_counter, i >= 9);
    EXPECT_EQ(answer.decision.reason, i < 2 ? Reason::kOk : Reason::kOver);
  }
  EXPECT_EQ(store_.stats().keys, 10u) << "of nine users and the address";
  EXPECT_EQ(decide(rules, user(600, "/login")).decision.reason, Reason::kLimited)
      << "the address was charged whatever the user";
  for (int i = 0; i < 500; ++i) {
    const bool charges = i % 2 == 0;
    const RuleAnswer& answer = charges ? decide(rules, user(i, "/"), 1, Verb::kCharge)
                                       : request_.settle(rules, user(i, "/"), 1, 2, kNow);
    EXPECT_EQ(answer.decision.reason, i < 10 ? Reason::kOk : Reason::kStoreFull);
  }
  EXPECT_EQ(store_.stats().keys, 20u);
}

TEST(RuleDecider, CanBeMoved) {
  MemoryStore store;
  Limiter limiter(store);
  RuleDecider first(limiter);
  RuleDecider second(std::move(first));
  const RuleSet rules = rules_of({"name: a, " + limits(kTwo)});
  EXPECT_EQ(second.decide(rules, Attributes{}).decision.remaining, 1u);
}

}  // namespace
}  // namespace sluice
