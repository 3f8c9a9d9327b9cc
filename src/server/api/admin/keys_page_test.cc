#include "server/api/admin/test_endpoint.h"

#include "sluice/attributes.h"
#include "sluice/rule_decider.h"

namespace sluice::server::keys_page_test {
namespace {

constexpr const char* kRules = R"(version: 1
domain: shop
rules:
  - name: login
    match: { method: POST, path: /login }
    limits:
      - { key: "{ip/64}", algorithm: sliding_window_log, limit: 5, per: 1m }
  - name: order
    match: { path: /order }
    limits:
      - { name: global, algorithm: token_bucket, limit: 1000, per: 1s, burst: 9 }
      - { name: user, key: "{header.X-User-Id|cookie.user} {method}", algorithm: gcra, limit: 4, per: 1s, on_missing: deny }
  - name: odd
    limits:
      - { name: both, key: "{{{rule}}}-{limit}", algorithm: fixed_window, limit: 3, per: 1m }
  - name: tagged
    tag: "{header.x-tenant}"
    limits:
      - { key: "{ip}", algorithm: token_bucket, limit: 5, per: 1m, burst: 5 }
  - { name: closed, action: deny }
)";

class KeysPage : public TestAdmin {
 protected:
  void SetUp() override { open({kRules}); }
  // Takes from all limits of a rule, like an endpoint.
  bool take(std::string_view rule, const Attributes& attributes, std::uint64_t cost) {
    const RuleSet rules = manager_->current();
    return requests_.decide(rules, attributes, cost, {}, Verb::kTake, rules.find(rule))
        .decision.allowed();
  }
  Answered remove(std::string_view target) { return call("DELETE", target); }
  std::int64_t remaining(std::string_view target, std::size_t limit = 0) {
    return get(target).json().at("limits").at(limit).at("remaining").as_int64();
  }

  RuleDecider requests_{limiter_};
};

TEST_F(KeysPage, ShowsACounterWithoutTakingFromIt) {
  EXPECT_TRUE(take("login", {{"ip", "2001:db8::1"}}, 2));
  const std::string expected =
      R"({"rule":"login","limits":[{"name":"login/0","key":"2001:db8::/64",)"
      R"("counter":"shop|login|login/0|ip/64=2001:db8::/64","algorithm":"sliding_window_log",)"
      R"("numbers":"5 per 1m","limit":5,"remaining":3,"reset_after_ms":60000}]})"
      "\n";
  for (int i = 0; i < 2; ++i) {
    const Answered answered = get("/v1/keys?rule=login&ip=2001:db8::2");
    EXPECT_EQ(answered.status, 200);
    EXPECT_EQ(answered.body, expected);
  }
  clock_.advance(std::chrono::microseconds{59'999'001});
  EXPECT_EQ(
      get("/v1/keys?rule=login&ip=2001:db8::2").json().at("limits").at(0).at("reset_after_ms"), 1)
      << "rounded up";
}

TEST_F(KeysPage, ShowsAndResetsACounterOfATaggedRule) {
  EXPECT_TRUE(take("tagged", {{"ip", "192.0.2.1"}, {"header.x-tenant", "a"}}, 2));
  EXPECT_TRUE(take("tagged", {{"ip", "192.0.2.1"}}, 1));
  const std::string of_a = "/v1/keys?rule=tagged&ip=192.0.2.1&header.x-tenant=a";
  const std::string of_none = "/v1/keys?rule=tagged&ip=192.0.2.1";
  EXPECT_EQ(get(of_a).json().at("limits").at(0).at("tag"), "header.x-tenant=a");
  EXPECT_EQ(get(of_none).json().at("limits").at(0).at("tag"), "header.x-tenant=");
  EXPECT_EQ(remaining(of_a), 3);
  EXPECT_EQ(remaining(of_none), 4);
  EXPECT_EQ(remove(of_a).status, 200);
  EXPECT_EQ(remaining(of_a), 5);
  EXPECT_EQ(remaining(of_none), 4);
}

TEST_F(KeysPage, ShowsAnExhaustedCounterAndWhenTheNextRequestPasses) {
  EXPECT_TRUE(take("login", {{"ip", "192.0.2.1"}}, 5));
  EXPECT_EQ(remaining("/v1/keys?rule=login&ip=192.0.2.1"), 0);
  EXPECT_EQ(get("/v1/keys?rule=login&ip=192.0.2.1").json().at("limits").at(0).at("retry_after_ms"),
            60'000);
  EXPECT_EQ(remaining("/v1/keys?rule=login&ip=192.0.2.2"), 5);
}

TEST_F(KeysPage, ShowsWhatAnOverrideSays) {
  overrides_ = std::move(ServerOverrides::open("").value());
  reopen();
  const std::string counter = "shop|login|login/0|ip/64=2001:db8::/64";
  const std::string target = "/v1/keys?rule=login&ip=2001:db8::1";
  ASSERT_TRUE(overrides_->set(counter, {.limit = 2}));
  auto shown = get(target).json().at("limits").at(0);
  EXPECT_EQ(shown.at("numbers"), "2 per 1m");
  EXPECT_EQ(shown.at("override").at("limit"), 2);
  EXPECT_TRUE(take("login", {{"ip", "2001:db8::1"}}, 5));
  ASSERT_TRUE(overrides_->set(counter, {.kind = Override::Kind::kUnlimited}));
  shown = get(target).json().at("limits").at(0);
  EXPECT_EQ(shown.at("override").at("unlimited"), true);
  EXPECT_FALSE(shown.as_object().contains("retry_after_ms"));
}

TEST_F(KeysPage, ShowsEveryLimitAndTheMissingAttributes) {
  EXPECT_TRUE(take("order", {{"header.x-user-id", "42"}, {"method", "GET"}}, 1));
  const auto whole = get("/v1/keys?rule=order&header.x-user-id=42&method=GET").json();
  EXPECT_EQ(whole.at("limits").at(0).at("name"), "global");
  EXPECT_EQ(whole.at("limits").at(0).at("remaining"), 8);
  EXPECT_EQ(whole.at("limits").at(0).at("key"), "");
  EXPECT_EQ(whole.at("limits").at(1).at("key"), "42 GET");
  EXPECT_EQ(whole.at("limits").at(1).at("remaining"), 3);
  const Answered partly = get("/v1/keys?rule=order&header.x-user-id=");
  EXPECT_EQ(partly.status, 200);
  EXPECT_EQ(partly.json().at("limits").at(0).at("remaining"), 8);
  EXPECT_EQ(boost::json::serialize(partly.json().at("limits").at(1)),
            R"({"name":"user","missing":["header.x-user-id or cookie.user","method"]})");
}

TEST_F(KeysPage, ShowsTheOneLimitThatIsNamed) {
  const auto json = get("/v1/keys?rule=order&limit=global").json();
  ASSERT_EQ(json.at("limits").as_array().size(), 1U);
  EXPECT_EQ(json.at("limits").at(0).at("name"), "global");
}

TEST_F(KeysPage, ShowsALimitWithoutANameByItsIndex) {
  const auto json = get("/v1/keys?rule=login&limit=0&ip=192.0.2.1").json();
  EXPECT_EQ(json.at("limits").at(0).at("name"), "login/0");
  EXPECT_EQ(get("/v1/keys?rule=login&limit=1").status, 404);
}

TEST_F(KeysPage, DecodesTheQuery) {
  const auto json =
      get("/v1/keys?rule=order&limit=user&cookie.user=a%7Cb%26+c&method=G%45T").json();
  EXPECT_EQ(json.at("limits").at(0).at("key"), "a|b& c GET");
  EXPECT_EQ(json.at("limits").at(0).at("counter"),
            "shop|order|user|cookie.user=a%7Cb& c| |method=GET");
}

TEST_F(KeysPage, AnswersInUtf8WhateverTheKeyIs) {
  const auto json = get("/v1/keys?rule=login&ip=%FFx").json();
  EXPECT_EQ(json.at("limits").at(0).at("key"), "\xEF\xBF\xBDx");
}

TEST_F(KeysPage, AttributesNamedLikeAParameterHaveAPrefix) {
  const auto missing = get("/v1/keys?rule=odd").json();
  EXPECT_EQ(boost::json::serialize(missing.at("limits").at(0).at("missing")),
            R"(["rule","limit"])");
  const auto json = get("/v1/keys?rule=odd&attribute.rule=a&attribute.limit=b").json();
  EXPECT_EQ(json.at("limits").at(0).at("key"), "{a}-b");
}

TEST_F(KeysPage, ReportsTheProblemOfTheQuery) {
  EXPECT_EQ(get("/v1/keys").status, 400);
  EXPECT_EQ(get("/v1/keys").detail(),
            "the rule is missing; expected ?rule=NAME and the attributes of a request, such as "
            "&ip=192.0.2.1");
  EXPECT_EQ(get("/v1/keys?rule=logn").status, 404);
  EXPECT_EQ(get("/v1/keys?rule=logn").detail(),
            "there is no rule 'logn'; expected one of: login, order, odd, tagged, closed; did you "
            "mean 'login'?");
  EXPECT_EQ(get("/v1/keys?rule=order&limit=x").status, 404);
  EXPECT_EQ(get("/v1/keys?rule=order&limit=x").detail(),
            "rule 'order' has no limit 'x'; expected one of: global, user");
  EXPECT_EQ(get("/v1/keys?rule=%FF").status, 404)
      << "and is UTF-8: " << get("/v1/keys?rule=%FF").detail();
}

TEST_F(KeysPage, ResetsTheCounterOfARuleWithOneLimit) {
  EXPECT_TRUE(take("login", {{"ip", "192.0.2.1"}}, 5));
  EXPECT_TRUE(take("login", {{"ip", "192.0.2.2"}}, 5));
  const Answered answered = remove("/v1/keys?rule=login&ip=192.0.2.1");
  EXPECT_EQ(answered.status, 200);
  EXPECT_EQ(answered.json().at("limits").at(0).at("remaining"), 5);
  EXPECT_EQ(answered.json().at("limits").at(0).at("reset_after_ms"), 0);
  EXPECT_TRUE(take("login", {{"ip", "192.0.2.1"}}, 5));
  EXPECT_FALSE(take("login", {{"ip", "192.0.2.2"}}, 1));
  EXPECT_EQ(done_, std::vector<std::string>{
                       "counter reset: shop|login|login/0|ip/64=192.0.2.1 by 127.0.0.1"});
}

TEST_F(KeysPage, ResetsNoGlobalCounterUnlessAsked) {
  const Attributes attributes{{"cookie.user", "42"}, {"method", "GET"}};
  EXPECT_TRUE(take("order", attributes, 3));
  const std::string target = "/v1/keys?rule=order&cookie.user=42&method=GET";
  const Answered refused = remove(target);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(
      refused.detail(),
      "rule 'order' has several limits; expected limit=NAME (order/NAME on the command line), "
      "one of: global, user; or limit=* for all that read these attributes");
  EXPECT_EQ(remaining(target, 0), 6);
  EXPECT_EQ(remaining(target, 1), 1);
  EXPECT_EQ(remove(target + "&limit=user").status, 200);
  EXPECT_EQ(remaining(target, 0), 6);
  EXPECT_EQ(remaining(target, 1), 4);
  EXPECT_EQ(remove(target + "&limit=*").json().at("limits").as_array().size(), 1U);
  EXPECT_EQ(remaining(target, 0), 6) << "the limit for all requests";
  EXPECT_EQ(remove(target + "&limit=global").status, 200);
  EXPECT_EQ(remaining(target, 0), 9);
}

TEST_F(KeysPage, ResetOfAllSkipsLimitsThatLackAttributes) {
  EXPECT_TRUE(take("order", {{"cookie.user", "42"}, {"method", "GET"}}, 3));
  const Answered answered = remove("/v1/keys?rule=order&limit=*");
  EXPECT_EQ(answered.status, 200);
  EXPECT_EQ(answered.json().at("limits").at(0).at("remaining"), 9);
  EXPECT_EQ(answered.json().at("limits").at(1).at("missing").as_array().size(), 2U);
}

TEST_F(KeysPage, ResetOfNothingIsAMistake) {
  EXPECT_EQ(remove("/v1/keys?rule=order&limit=user&method=GET").status, 400);
  EXPECT_EQ(remove("/v1/keys?rule=order&limit=user&method=GET").detail(),
            "nothing to reset: the key of the limit 'user' lacks header.x-user-id or cookie.user; "
            "expected these attributes too");
  EXPECT_EQ(remove("/v1/keys?rule=login").status, 400);
  EXPECT_EQ(remove("/v1/keys?rule=login&limit=x&ip=1").status, 404);
  EXPECT_EQ(remove("/v1/keys?rule=closed&limit=*").detail(),
            "nothing to reset: rule 'closed' has no limits; expected a rule with limits");
  EXPECT_TRUE(done_.empty());
}

// A store that cannot be reached.
class BrokenStore final : public Store {
 public:
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    const Decision failed = Decision::refused(reason);
    for (Decision& one : each) one = failed;
    return failed;
  }

  Reason reason = Reason::kStoreTimeout;
};

TEST_F(KeysPage, ReportsThatTheStoreDoesNotAnswer) {
  BrokenStore broken;
  limiter_ = Limiter(broken);
  const auto refused = [&](const char* method) {
    const Answered answered = call(method, "/v1/keys?rule=login&ip=192.0.2.1");
    EXPECT_EQ(answered.status, 503);
    return answered.detail();
  };
  const std::string start = "the store could not answer for the limit 'login/0'";
  EXPECT_EQ(refused("GET"), start +
                                ": store_timeout; meanwhile requests of the rule are decided by "
                                "on_store_error: allow");
  EXPECT_EQ(refused("DELETE"), start + ", which may have been changed (repeat it): store_timeout");
  broken.reason = Reason::kStoreError;
  EXPECT_EQ(refused("DELETE"), start + ", which is not changed: store_error");
  broken.reason = Reason::kStoreFull;
  EXPECT_EQ(refused("DELETE"),
            "the store is full, and has no room for the limit 'login/0', which is not changed: "
            "store_full");
  EXPECT_TRUE(done_.empty());
}

}  // namespace
}  // namespace sluice::server::keys_page_test
