#include "server/api/admin/test_endpoint.h"

namespace sluice::server::rule_patch_page_test {
namespace {

constexpr const char* kRules =
    "version: 1\n"
    "rules:\n"
    "  - name: api  # of the shop\n"
    "    limits:\n"
    "      - { name: user, algorithm: token_bucket, limit: 5, per: 1s, burst: 9 }\n"
    "    continue: true\n"
    "  - name: a/b\n"
    "    limits: [ { name: all, algorithm: gcra, limit: 7, per: 1m } ]\n";

class RulePatch : public TestAdmin {
 protected:
  Answered patch(std::string_view body, const Fields& fields = {},
                 std::string_view path = "/v1/rules/api") {
    return call("PATCH", path, fields, body);
  }
  std::string refused(std::string_view body, int status, std::string_view path = "/v1/rules/api") {
    const Answered answered = patch(body, {}, path);
    EXPECT_EQ(answered.status, status) << answered.body;
    EXPECT_EQ(manager_->version(), 1U);
    EXPECT_TRUE(done_.empty());
    return answered.detail();
  }
  FailurePolicy policy_of(std::string_view rule) {
    return manager_->current().find(rule)->on_store_error;
  }
  std::uint64_t limit_of(std::string_view rule) {
    return manager_->current().find(rule)->limits[0].limit.limit();
  }
};

TEST_F(RulePatch, ChangesNumbersAtOnceAndInTheText) {
  open({kRules});
  const Answered answered = patch(R"({"limits":{"user":{"limit":20,"per":"10s"}}})");
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_EQ(answered.body,
            "{\"version\":2,\"changed\":true,\"rules\":2,\"limits\":2,\"file\":\"" +
                folder_ / "0.yaml" +
                "\",\"active_until\":\"the rules files or their lists change, or the server "
                "reloads or stops\",\"where\":\"this "
                "server\",\"differences\":[{\"change\":\"changed\",\"rule\":\"api\","
                "\"limit\":\"user\",\"key\":\"limit\",\"old\":\"5\",\"new\":\"20\"},"
                "{\"change\":\"changed\",\"rule\":\"api\",\"limit\":\"user\",\"key\":\"per\","
                "\"old\":\"1s\",\"new\":\"10s\"}],\"more_differences\":false}\n");
  EXPECT_EQ(limit_of("api"), 20U);
  const Answered text = get("/v1/rules");
  EXPECT_NE(text.body.find("name: api  # of the shop"), std::string::npos);
  EXPECT_NE(text.body.find("limit: 20, per: 10s, burst: 9 }"), std::string::npos);
  EXPECT_EQ(text.field("ETag"), answered.field("ETag"));
  EXPECT_EQ(done_, std::vector<std::string>{"rule api changed: version 2 by 127.0.0.1"});
}

TEST_F(RulePatch, IsTriedWithoutAChange) {
  open({kRules});
  const std::string number = R"({"limits":{"user":{"limit":20}},"dry_run":)";
  const std::string mode = R"({"mode":"enforce","dry_run":true)";
  EXPECT_EQ(patch(R"({"mode":"shadow","for":"1h"})").status, 200);
  for (const char* const more : {"}", R"(,"for":"1h"})"}) {
    const auto tried = patch(number + "true" + more).json();
    EXPECT_EQ(tried.at("changed"), false);
    EXPECT_EQ(boost::json::serialize(tried.at("differences")),
              R"([{"change":"changed","rule":"api","limit":"user","key":"limit","old":"5",)"
              R"("new":"20"}])");
    EXPECT_EQ(boost::json::serialize(patch(mode + more).json().at("differences")),
              R"([{"change":"changed","rule":"api","key":"mode","old":"shadow","new":"enforce"}])");
  }
  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":9007199254740991}},"dry_run":true})").status, 400);
  EXPECT_NE(patch(R"({"for":"0s","dry_run":true})").detail().find("expected it alone"),
            std::string::npos);
  EXPECT_EQ(manager_->version(), 2U);
  EXPECT_EQ(patch(number + "false}").json().at("changed"), true);
}

TEST_F(RulePatch, TheSameNumbersChangeNothing) {
  open({kRules});
  const Answered answered = patch(R"({"limits":{"user":{"limit":5}}})");
  EXPECT_EQ(answered.status, 200);
  EXPECT_EQ(answered.json().at("changed"), false);
  EXPECT_EQ(answered.json().at("version"), 1);
  EXPECT_TRUE(done_.empty());
}

TEST_F(RulePatch, ReadsMinusZeroAsZero) {
  open({kRules});
  const std::string zero = patch(R"({"limits":{"user":{"limit":0}}})").body;
  EXPECT_NE(zero.find("\"new\":\"0\""), std::string::npos) << zero;
  open({kRules});
  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":-0}}})").body, zero);
}

TEST_F(RulePatch, ChangesTheModeOfARuleWhoseNameHasASlash) {
  open({kRules});
  EXPECT_EQ(patch(R"({"mode":"shadow"})", {}, "/v1/rules/a%2Fb").status, 200);
  EXPECT_EQ(manager_->current().find("a/b")->mode, RuleMode::kShadow);
  EXPECT_EQ(patch(R"({"mode":"enforce"})", {}, "/v1/rules/a/b").status, 200);
  EXPECT_EQ(manager_->current().find("a/b")->mode, RuleMode::kEnforce);
}

TEST_F(RulePatch, ChangesOneOfSeveralFiles) {
  open({kRules,
        "version: 1\nrules: [ { name: x, limits: [ { algorithm: gcra, limit: 1, per: 1s } "
        "] } ]\n"});
  EXPECT_EQ(patch(R"({"limits":{"x/0":{"limit":3}}})", {}, "/v1/rules/x").status, 200);
  EXPECT_EQ(limit_of("x"), 3U);
  EXPECT_EQ(get("/v1/rules?file=0.yaml").body, kRules);
  EXPECT_NE(get("/v1/rules?file=1.yaml").body.find("limit: 3"), std::string::npos);
}

TEST_F(RulePatch, KeepsTheListsOfRulesFromFiles) {
  folder_.write("bad.txt", "10.0.0.1\n");
  open(
      {"version: 1\nrules: [ { name: api, match: { ip: { in: bad.txt } }, limits: [ { name: user, "
       "algorithm: gcra, limit: 1, per: 1s } ] } ]\n"});
  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":3}}})").status, 200);
  EXPECT_EQ(limit_of("api"), 3U);
  EXPECT_FALSE(manager_->changed_on_disk());
}

TEST_F(RulePatch, TheFilesWinAtTheNextReload) {
  open({kRules});
  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":20}}})").status, 200);
  EXPECT_EQ(call("POST", "/v1/rules/reload").json().at("changed"), true);
  EXPECT_EQ(limit_of("api"), 5U);
}

TEST_F(RulePatch, FollowsIfMatch) {
  open({kRules});
  const std::string tag = get("/v1/rules").field("ETag");
  const char* const body = R"({"limits":{"user":{"limit":20}}})";
  EXPECT_EQ(patch(body, {{"If-Match", tag}}).status, 200);
  const Answered stale = patch(body, {{"If-Match", tag}});
  EXPECT_EQ(stale.status, 412);
  EXPECT_TRUE(stale.has("X-Sluice-Rules-Version", "2"));
  EXPECT_EQ(patch(body, {{"If-Match", "2"}}).status, 200);
}

TEST_F(RulePatch, AnUnknownRuleIsAnsweredWithTheNamesThatExist) {
  open({kRules});
  EXPECT_EQ(refused(R"({"mode":"shadow"})", 404, "/v1/rules/apo"),
            "there is no rule 'apo'; expected one of: api, a/b; did you mean 'api'?");
}

TEST_F(RulePatch, RulesThatWouldBeWrongAreRefusedWithThePlace) {
  open({kRules});
  const std::string detail = refused(R"({"limits":{"user":{"per":"400d"}}})", 400);
  EXPECT_EQ(detail.find(folder_ / "0.yaml:5:"), 0U) << detail;
  EXPECT_EQ(get("/v1/rules").body, kRules);
}

TEST_F(RulePatch, BodiesThatAreWrongAreExplained) {
  open({kRules});
  const std::string example = R"({"limits":{"LIMIT":{"limit":20,"per":"1s"}}})";
  EXPECT_EQ(refused("limits:", 400), "the body is not a JSON object; expected " + example);
  EXPECT_EQ(refused("{}", 400), "the body changes nothing; expected " + example);
  EXPECT_EQ(refused(R"({"limit":1})", 400),
            "unknown member 'limit'; expected limits, mode, on_store_error, for or dry_run");
  EXPECT_EQ(refused(R"({"limits":7})", 400),
            "'limits' is a number; expected an object such as " + example);
  EXPECT_EQ(refused(R"({"limits":{"user":{}}})", 400),
            "'limits.user' is empty; expected an object with limit, per, lease or burst");
  EXPECT_EQ(
      refused(R"({"limits":{"user":{"limit":"20"}}})", 400),
      "'limits.user.limit' is text; expected a whole number from 0 to 9007199254740991, without "
      "quotes");
  EXPECT_EQ(refused(R"({"limits":{"user":{"per":1}}})", 400),
            "'limits.user.per' is a number; expected a period in quotes, such as \"1s\"");
  EXPECT_EQ(refused(R"({"limits":{"user":{"key":"{ip}"}}})", 400),
            "unknown member 'limits.user.key'; expected limit, per, lease or burst, or prices of a "
            "plan; other keys are changed by PUT /v1/rules");
  EXPECT_EQ(refused(R"({"mode":"off"})", 400),
            "'mode' is 'off'; expected \"enforce\" or \"shadow\"");
  EXPECT_EQ(refused(R"({"mode":"shadow","mode":"enforce"})", 400),
            "the member 'mode' is given twice; expected it once");
  EXPECT_EQ(refused(R"({"limits":{"user":{"limit":1},"user":{"limit":2}}})", 400),
            "the member 'limits.user' is given twice; expected it once");
  EXPECT_EQ(refused(R"({"limits":{"usr":{"limit":1}}})", 400),
            "rule 'api' has no limit 'usr'; expected user");
  const std::string period = refused(R"({"limits":{"user":{"per":"1min"}}})", 400);
  EXPECT_EQ(period.find("'limits.user.per': "), 0U) << period;
  EXPECT_NE(period.find("; expected "), std::string::npos) << period;
}

constexpr const char* kWithPlans =
    "version: 1\n"
    "plans:\n"
    "  free: { user: { limit: 5, per: 1s } }\n"
    "  pro: { user: { limit: 50, per: 1s } }\n"
    "rules:\n"
    "  - name: api\n"
    "    plan: { from: \"{header.x-plan}\", default: free }\n"
    "    limits: [ { name: user, key: \"{ip}\", algorithm: gcra } ]\n";

TEST_F(RulePatch, ChangesThePlanThatTheNumbersComeFrom) {
  open({kWithPlans});
  const std::string body = R"({"limits":{"user":{"limit":20}}})";
  EXPECT_EQ(refused(body, 409),
            "limit 'user' of rule 'api' has no 'limit' of its own, its numbers come from plans, "
            "which limits of other rules share; expected a change of a plan, such as sluice rules "
            "set plans/free/user limit=20 (PATCH /v1/plans/free)");
  const Answered answered = patch(body, {}, "/v1/plans/free?by=ops");
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_EQ(answered.json().at("differences").as_array().size(), 1U) << answered.body;
  EXPECT_NE(get("/v1/rules").body.find("free: { user: { limit: 20, per: 1s } }"),
            std::string::npos);
  EXPECT_EQ(done_, std::vector<std::string>{"plan free changed: version 2 by 127.0.0.1"});
  EXPECT_EQ(manager_->history().front().by, "ops (PATCH /v1/plans/free from 127.0.0.1)");
}

TEST_F(RulePatch, APlanThatIsUnknownOrHasNoModeIsRefused) {
  open({kWithPlans});
  const std::string body = R"({"limits":{"user":{"limit":20}}})";
  EXPECT_EQ(refused(body, 404, "/v1/plans/gold"), "there is no plan 'gold'; expected free or pro");
  EXPECT_EQ(refused(R"({"limits":{"usr":{"limit":20}}})", 400, "/v1/plans/free"),
            "the plan 'free' has no limit 'usr'; expected user, or sluice rules set RULE/usr for "
            "numbers that the limit has in its rule");
  EXPECT_EQ(refused(R"({"mode":"shadow"})", 400, "/v1/plans/free"),
            "'mode' is of a rule, not of a plan; expected limits");
  EXPECT_EQ(refused(body, 400, "/v1/plans/free?by=%0A"),
            "'by' is no name; expected 1 to 128 bytes without control characters");
}

constexpr const char* kWithPrices =
    "version: 1\n"
    "prices: { meta/large: { in: 3, out: 15 }, small: { in: 1, out: 2 } }\n"
    "rules:\n"
    "  - name: api\n"
    "    limits: [ { name: a, algorithm: budget, limit: 100, per: 1d, cost: '{n|1} * price.in',\n"
    "        price: { of: '{model}', default: meta/large } } ]\n";

TEST_F(RulePatch, ChangesPricesOfAModel) {
  open({kWithPrices});
  const Answered answered = patch(R"({"in":4})", {}, "/v1/prices/meta%2Flarge?by=ops");
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_NE(answered.body.find("\"key\":\"prices.meta/large.in\",\"old\":\"3\",\"new\":\"4\""),
            std::string::npos)
      << answered.body;
  EXPECT_NE(get("/v1/rules").body.find("meta/large: { in: 4, out: 15 }"), std::string::npos);
  EXPECT_EQ(done_,
            std::vector<std::string>{"prices of meta/large changed: version 2 by 127.0.0.1"});
  EXPECT_EQ(manager_->history().front().by, "ops (PATCH /v1/prices/meta/large from 127.0.0.1)");
  EXPECT_EQ(patch(R"({"in":5})", {{"If-Match", "1"}}, "/v1/prices/small").status, 412);
}

TEST_F(RulePatch, AModelOrAPriceThatIsUnknownIsRefused) {
  open({kWithPrices});
  EXPECT_EQ(refused(R"({"in":4})", 404, "/v1/prices/large"),
            "there is no model 'large'; expected meta/large or small");
  EXPECT_EQ(refused(R"({"inn":4})", 400, "/v1/prices/small"),
            "the model 'small' has no price 'inn'; expected in or out");
  EXPECT_EQ(refused(R"({"in":1.5})", 400, "/v1/prices/small"),
            "'in' is 1.5; expected a whole number from 0 to 9007199254740991, without quotes");
  EXPECT_EQ(refused(R"({"in":4,"in":5})", 400, "/v1/prices/small"),
            "the member 'in' is given twice; expected it once");
  EXPECT_EQ(refused("{}", 400, "/v1/prices/small"),
            "the body changes nothing; expected prices by name, such as {\"input\":4}");
  EXPECT_EQ(refused("[]", 400, "/v1/prices/small"),
            "the body is not a JSON object; expected prices by name, such as {\"input\":4}");
}

TEST_F(RulePatch, TheStatusSaysHowTheRulesDifferFromTheFiles) {
  open({kRules});
  EXPECT_FALSE(get("/v1/status").json().at("rules").as_object().contains("differences"));
  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":20}}})", {}, "/v1/rules/api?by=ann").status, 200);
  const auto rules = get("/v1/status").json().at("rules").as_object();
  EXPECT_EQ(rules.at("differ_by"), "ann (PATCH /v1/rules/api from 127.0.0.1)");
  ASSERT_EQ(rules.at("differences").as_array().size(), 1U);
  EXPECT_EQ(rules.at("differences").at(0).at("new"), "20");
}

TEST_F(RulePatch, TheHistorySaysWhoChangedWhat) {
  open({kRules});
  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":20}}})", {}, "/v1/rules/api?by=a%20b").status, 200);
  EXPECT_EQ(put("version: 1\nrules: []\n").status, 200);
  const auto versions = get("/v1/rules/history").json().at("versions").as_array();
  ASSERT_EQ(versions.size(), 3U);
  EXPECT_EQ(versions[0].at("by"), "PUT /v1/rules from 127.0.0.1");
  EXPECT_EQ(versions[1].at("by"), "a b (PATCH /v1/rules/api from 127.0.0.1)");
  EXPECT_EQ(versions[2].at("by"), "the start");
  EXPECT_EQ(versions[2].at("version"), 1);
  const auto first = get("/v1/rules/history?version=1").json();
  EXPECT_EQ(first.at("texts").at(0).at("text"), kRules);
  EXPECT_EQ(first.at("texts").at(0).at("name").as_string(), folder_ / "0.yaml");
  EXPECT_EQ(get("/v1/rules/history?version=4").detail(),
            "this server has no rules of version '4'; expected 1 to 3, the versions that it keeps");
}

TEST_F(RulePatch, RollsBackToRulesOfTheHistory) {
  open({kRules});
  EXPECT_EQ(put("version: 1\nrules: []\n").status, 200);
  EXPECT_EQ(call("POST", "/v1/rules/rollback").status, 400);
  EXPECT_EQ(call("POST", "/v1/rules/rollback?version=9").status, 404);
  EXPECT_EQ(call("POST", "/v1/rules/rollback?version=1", {{"If-Match", "1"}}).status, 412);
  const Answered answered = call("POST", "/v1/rules/rollback?version=1", {{"If-Match", "2"}});
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_EQ(answered.json().at("differences").as_array().size(), 2U);
  EXPECT_EQ(limit_of("api"), 5U);
  EXPECT_EQ(done_.back(), "rules rolled back to version 1: version 3 by 127.0.0.1");
  EXPECT_EQ(manager_->history().front().by, "rollback to version 1 from 127.0.0.1");
}

// Rules from Redis, whose pushes the test answers.
class PushedPatch : public RulePatch {
 protected:
  using Outcome = PushedRules::Outcome;

  void open_with(Expected<Outcome, PushFailure> outcome) {
    manager_ = *RulesManager::open_source({{"redis:a.yaml", kRules}}, clock_);
    const auto push = [this, outcome](const std::vector<RulesText>& before,
                                      const std::vector<RulesText>& texts, const std::string& by,
                                      bool replaces) {
      pushed_.push_back(by);
      if (!replaces) {
        EXPECT_EQ(before.front().text, kRules);
        EXPECT_NE(texts.front().text, kRules);
      }
      if (outcome && *outcome == Outcome::kPushed) {
        EXPECT_TRUE(manager_->follow(texts, by));
      }
      if (on_push_) on_push_();
      using Result = Expected<PushedRules::Pushed, PushFailure>;
      if (!outcome) return Result(Unexpected{outcome.error()});
      return Result(PushedRules::Pushed{*outcome, 41});
    };
    endpoint_ = std::make_unique<AdminEndpoint>(AdminEndpoint{.rules = *manager_,
                                                              .limiter = limiter_,
                                                              .token = token_,
                                                              .status = [this] { return status_; },
                                                              .push = push});
  }
  std::vector<std::string> pushed_;
  std::function<void()> on_push_;
};

constexpr const char* kTwenty = R"({"limits":{"user":{"limit":20}}})";

TEST_F(PushedPatch, IsActiveForAllServers) {
  open_with(Outcome::kPushed);
  const auto json = patch(kTwenty).json();
  EXPECT_EQ(json.at("active_until"), "other rules are pushed");
  EXPECT_EQ(json.at("pushed_version"), 41);
  EXPECT_EQ(json.at("version"), 2) << "of this server";
  EXPECT_EQ(limit_of("api"), 20U);
  EXPECT_EQ(pushed_, std::vector<std::string>{"PATCH /v1/rules/api from 127.0.0.1"});
}

TEST_F(PushedPatch, IsStillActiveAfterAReload) {
  open_with(Outcome::kPushed);
  EXPECT_EQ(patch(kTwenty).status, 200);
  EXPECT_FALSE(*manager_->reload());
  EXPECT_EQ(limit_of("api"), 20U);
}

TEST_F(PushedPatch, SaysSoIfOtherRulesAreActiveByThen) {
  open_with(Outcome::kPushed);
  on_push_ = [this] { ASSERT_TRUE(manager_->replace("version: 1\nrules: []\n", "PUT")); };
  const Answered answered = patch(kTwenty);
  EXPECT_EQ(answered.status, 409);
  EXPECT_EQ(answered.detail(),
            "the change is in Redis, but this server has got other rules at the same time; look at "
            "its active rules");
}

TEST_F(PushedPatch, IsForOneServerIfItsRulesAreNotInRedis) {
  open_with(Outcome::kNotInRedis);
  EXPECT_EQ(patch(kTwenty).json().at("active_until"),
            "other rules are pushed, or the server reloads or stops");
  EXPECT_EQ(limit_of("api"), 20U);
}

TEST_F(PushedPatch, ChangesNothingIfItCannotBePushed) {
  open_with(Outcome::kOthersPushed);
  EXPECT_EQ(refused(kTwenty, 409),
            "other rules were pushed at the same time; expected the same request again, after a "
            "look at those rules");
  open_with(Outcome::kOthersInRedis);
  EXPECT_EQ(refused(kTwenty, 409),
            "the rules in Redis are not the active ones; expected POST /v1/rules/reload, which "
            "takes them or says why it cannot, or POST /v1/rules/rollback?version=1, which "
            "replaces them by the active ones");
  open_with(Unexpected{PushFailure{"no answer"}});
  EXPECT_EQ(refused(kTwenty, 503), "the rules in Redis could not be changed: no answer");
  pushed_.clear();
  refused(R"({"limits":{"user":{"per":"400d"}}})", 400);
  EXPECT_EQ(pushed_, std::vector<std::string>{});
}

constexpr const char* kDeny = R"({"on_store_error":"deny"})";

TEST_F(RulePatch, ChangesWhatARuleDoesWithoutItsStore) {
  open({kRules});
  const Answered answered = patch(kDeny);
  EXPECT_EQ(answered.json().at("where"), "this server");
  EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny);
  EXPECT_NE(get("/v1/rules").body.find("name: api  # of the shop\n    on_store_error: deny\n"),
            std::string::npos);
  EXPECT_EQ(patch(R"({"on_store_error":"open"})").detail(),
            "'on_store_error' is 'open'; expected \"allow\", \"deny\" or \"local\"");
}

TEST_F(RulePatch, AChangeForATimeEndsByItselfAndLeavesTheTexts) {
  open({kRules});
  const Instant before = SystemClock().now();
  const Answered answered = patch(R"({"on_store_error":"deny","mode":"shadow","for":"1h"})");
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_EQ(answered.json().at("version"), 2);
  EXPECT_EQ(get("/v1/rules").body, kRules);
  EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny);
  EXPECT_EQ(manager_->current().find("api")->mode, RuleMode::kShadow);
  const auto listed = get("/v1/status").json().at("temporary").as_array();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[1].at("rule"), "api");
  EXPECT_EQ(listed[1].at("key"), "on_store_error");
  EXPECT_EQ(listed[1].at("value"), "deny");
  EXPECT_EQ(listed[1].at("until"), answered.json().at("active_until"));
  EXPECT_EQ(done_, std::vector<std::string>{"rule api changed on this server: version 2, until " +
                                            std::string(listed[1].at("until").as_string()) +
                                            " by 127.0.0.1"});

  const auto ended_at = [this](Instant now) {
    return manager_->end_changes(
        [now](const TemporaryChange& one) { return one.until && *one.until <= now; });
  };
  using std::chrono::minutes;
  EXPECT_TRUE(ended_at(before + minutes(59)).empty());
  EXPECT_EQ(ended_at(before + minutes(61)).size(), 2U);
  EXPECT_EQ(policy_of("api"), FailurePolicy::kAllow);
  EXPECT_EQ(manager_->version(), 3U);
  EXPECT_FALSE(get("/v1/status").json().as_object().contains("temporary"));
}

TEST_F(RulePatch, AChangeForATimeAnswersWithTheWarningsThatItCauses) {
  open(
      {"version: 1\nrules:\n"
       "  - { name: api, limits: [ { algorithm: gcra, limit: 1, per: 1m } ], match: { path: /x } "
       "}\n"
       "  - { name: rest, limits: [ { algorithm: gcra, limit: 1, per: 1m } ] }\n"});
  const Answered answered = patch(R"({"mode":"shadow","for":"1h"})");
  ASSERT_TRUE(answered.json().as_object().contains("warnings")) << answered.body;
  EXPECT_EQ(answered.json().at("warnings").at(0).at("what"),
            "the shadow rule 'api' ends the search before 'rest'");
}

TEST_F(RulePatch, AChangeForATimeOutlivesOtherRules) {
  open({kRules});
  EXPECT_EQ(patch(R"({"on_store_error":"deny","for":"1h"})").status, 200);
  EXPECT_EQ(call("POST", "/v1/rules/reload").json().at("changed"), false);
  EXPECT_EQ(put("version: 1\nrules: []\n").status, 200);
  EXPECT_EQ(call("POST", "/v1/rules/reload").json().at("changed"), true);
  EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny) << "the rule is there again";
}

TEST_F(RulePatch, ALaterChangeOfTheRulesReplacesOneForATime) {
  open({kRules});
  EXPECT_EQ(patch(R"({"on_store_error":"deny","mode":"shadow","for":"1h"})").status, 200);
  EXPECT_EQ(patch(R"({"on_store_error":"local"})").status, 200);
  EXPECT_EQ(policy_of("api"), FailurePolicy::kLocal);
  EXPECT_EQ(get("/v1/status").json().at("temporary").as_array().size(), 1U) << "the mode";
}

TEST_F(RulePatch, AChangeForATimeCanBeEnded) {
  open({kRules});
  EXPECT_EQ(refused(R"({"for":"0s"})", 409),
            "rule 'api' has no temporary change; expected a rule of 'temporary' in GET /v1/status");
  EXPECT_EQ(patch(R"({"on_store_error":"deny","for":"1h"})").status, 200);
  EXPECT_EQ(patch(R"({"for":"0s"})").json().at("changed"), true);
  EXPECT_EQ(policy_of("api"), FailurePolicy::kAllow);
}

TEST_F(RulePatch, AChangeForATimeOfARuleThatIsGoneHasNoEffectAndCanBeEnded) {
  open({kRules});
  EXPECT_EQ(patch(R"({"on_store_error":"deny","for":"1h"})").status, 200);
  EXPECT_FALSE(get("/v1/status").json().at("temporary").at(0).as_object().contains("effective"));
  EXPECT_EQ(put("version: 1\nrules: []\n").status, 200);
  EXPECT_EQ(get("/v1/status").json().at("temporary").at(0).at("effective"), false);
  EXPECT_EQ(patch(R"({"for":"0s"})").status, 200);
  EXPECT_FALSE(get("/v1/status").json().as_object().contains("temporary"));
  EXPECT_EQ(patch(R"({"for":"0s"})").detail(),
            "there is no rule 'api'; expected none, there are no rules");
}

TEST_F(RulePatch, ARuleThatAllowsIsNotInShadowModeForATime) {
  open({"version: 1\nrules: [ { name: api, action: allow } ]\n"});
  const std::string detail = refused(R"({"mode":"shadow","for":"1h"})", 400);
  EXPECT_NE(detail.find("'mode: shadow' with 'action: allow'"), std::string::npos) << detail;
}

TEST_F(RulePatch, ChangesNumbersForATime) {
  open({kRules});
  const auto json = patch(R"({"limits":{"user":{"limit":20,"burst":30}},"for":"1h"})").json();
  EXPECT_EQ(json.at("differences").as_array().size(), 2U);
  EXPECT_EQ(limit_of("api"), 20U);
  EXPECT_EQ(get("/v1/rules").body, kRules);
  const auto listed = get("/v1/status").json().at("temporary").as_array();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].at("rule"), "api");
  EXPECT_EQ(listed[0].at("key"), "user.limit");
  EXPECT_EQ(listed[0].at("value"), "20");
  EXPECT_EQ(listed[0].at("until"), json.at("active_until"));

  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":7}}})").status, 200);
  EXPECT_EQ(limit_of("api"), 7U) << "a later change of the rules replaces it";
  EXPECT_EQ(get("/v1/status").json().at("temporary").as_array().size(), 1U) << "the burst";
  EXPECT_EQ(patch(R"({"for":"0s"})").status, 200);
  EXPECT_FALSE(get("/v1/status").json().as_object().contains("temporary"));
  EXPECT_EQ(limit_of("api"), 7U);
}

TEST_F(RulePatch, ChangesAPlanForATime) {
  open({kWithPlans});
  const auto number = [&] {
    return manager_->current().rules()[0].limits[0].by_plan.at(0).limit();
  };
  const char* const plan = "/v1/plans/free";
  EXPECT_EQ(
      refused(R"({"for":"0s"})", 409, plan),
      "plan 'free' has no temporary change; expected a plan of 'temporary' in GET /v1/status");
  EXPECT_EQ(patch(R"({"limits":{"user":{"limit":50}},"for":"1h"})", {}, plan).status, 200);
  EXPECT_EQ(number(), 50U);
  const auto listed = get("/v1/status").json().at("temporary").as_array();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].at("rule"), "plans/free");
  EXPECT_EQ(listed[0].at("key"), "user.limit");
  EXPECT_EQ(patch(R"({"for":"0s"})", {}, plan).status, 200);
  EXPECT_EQ(number(), 5U);
}

TEST_F(RulePatch, ATimeNeedsAPeriodAndAChange) {
  open({kRules});
  EXPECT_EQ(refused(R"({"mode":"shadow","for":"soon"})", 400),
            "'for' is 'soon'; expected a period of at most 366d in quotes, such as \"1h\", or "
            "\"0s\" to end temporary changes");
  EXPECT_EQ(refused(R"({"mode":"shadow","for":"0s"})", 400),
            "'for' is \"0s\", which ends the temporary changes of the rule; expected it alone, or "
            "another period");
  refused(R"({"for":"1h"})", 400);
}

TEST_F(PushedPatch, ChangesTheFleetWhileRedisWorks) {
  open_with(Outcome::kPushed);
  const auto json = patch(kDeny).json();
  EXPECT_EQ(json.at("where"), "all servers");
  EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny);
}

TEST_F(PushedPatch, ChangesThisServerAtOnceWhileRedisFails) {
  open_with(Outcome::kPushed);
  status_.store = {.failing_since = Instant{}, .why_failing = "Redis at a:1 refuses connections"};
  const auto json = patch(kDeny).json();
  EXPECT_EQ(pushed_, std::vector<std::string>{}) << "it would wait for Redis";
  EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny);
  EXPECT_EQ(json.at("where"), "this server");
  EXPECT_EQ(json.at("active_until"), "other rules are active, or the server stops");
  EXPECT_EQ(json.at("note"),
            "the rules in Redis are not changed: Redis at a:1 refuses connections");

  auto other = std::string(kRules) + "# new\n";
  EXPECT_TRUE(*manager_->follow({{"redis:a.yaml", other}}, "a push"));
  EXPECT_EQ(policy_of("api"), FailurePolicy::kAllow) << "without an end, it ends with other rules";
}

TEST_F(PushedPatch, TheRulesThemselvesEndAChangeWhileRedisFails) {
  open_with(Outcome::kPushed);
  status_.store = {.failing_since = Instant{}, .why_failing = "Redis at a:1 refuses connections"};
  patch(R"({"mode":"shadow"})");
  ASSERT_EQ(manager_->status().temporary.size(), 1U);
  const auto json = patch(R"({"mode":"enforce","on_store_error":"deny"})").json();
  const auto& differences = json.at("differences").as_array();
  ASSERT_EQ(differences.size(), 2U) << json;
  EXPECT_EQ(differences[0].at("old"), "shadow");
  EXPECT_EQ(differences[0].at("new"), "enforce");
  EXPECT_EQ(differences[1].at("key"), "on_store_error");
  const auto temporary = manager_->status().temporary;
  ASSERT_EQ(temporary.size(), 1U);
  EXPECT_EQ(temporary[0].key, "on_store_error");
  const auto last = patch(R"({"on_store_error":"allow"})").json();
  EXPECT_EQ(last.at("differences").as_array().size(), 1U);
  EXPECT_EQ(last.at("active_until"), "its next change");
  EXPECT_FALSE(last.as_object().contains("note")) << "Redis has these values already";
  EXPECT_TRUE(manager_->status().temporary.empty());
  EXPECT_EQ(patch(R"({"mode":"enforce"})").json().at("changed"), false);
}

TEST_F(PushedPatch, AChangeForATimeIsOnTopOfOneWithoutAnEnd) {
  open_with(Outcome::kPushed);
  status_.store = {.failing_since = Instant{}, .why_failing = "Redis at a:1 refuses connections"};
  patch(kDeny);
  for (const bool is_asked : {false, true}) {
    const auto json = patch(R"({"on_store_error":"local","for":"1h"})").json();
    EXPECT_EQ(json.at("differences").at(0).at("old"), "deny");
    EXPECT_EQ(policy_of("api"), FailurePolicy::kLocal);
    EXPECT_EQ(manager_->status().temporary.size(), 2U);
    if (is_asked) {
      EXPECT_EQ(patch(R"({"for":"0s"})").json().at("note"),
                "this server still has on_store_error deny until other rules are active; the same "
                "request again ends that");
    } else {
      manager_->end_changes([](const TemporaryChange& one) { return one.until.has_value(); });
    }
    EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny) << "the change without an end counts again";
  }
  patch(R"({"on_store_error":"local","for":"1h"})");
  patch(R"({"on_store_error":"allow"})");
  EXPECT_TRUE(manager_->status().temporary.empty()) << "a change without an end ends both";
  patch(kDeny);
  EXPECT_FALSE(patch(R"({"for":"0s"})").json().as_object().contains("note"));
  EXPECT_EQ(policy_of("api"), FailurePolicy::kAllow);
}

TEST_F(PushedPatch, ChangesNothingIfThePushMayBeDone) {
  open_with(Unexpected{PushFailure{"no answer within 5 s", true}});
  const std::string unknown =
      "it is not known whether the rules in Redis are changed: no answer within 5 s; expected a "
      "look at GET /v1/rules/history, which has the change if they are, before the same request "
      "again";
  EXPECT_EQ(refused(kTwenty, 503), unknown);
  EXPECT_EQ(refused(kDeny, 503), unknown + ", or 'for' with it, which changes this server only");
  EXPECT_EQ(policy_of("api"), FailurePolicy::kAllow);
  EXPECT_EQ(patch(R"({"on_store_error":"deny","for":"1h"})").status, 200);
  EXPECT_TRUE(manager_->history().front().by.ends_with(", for a time"));
}

TEST_F(PushedPatch, SaysThatTheRulesAreLost) {
  open_with(Outcome::kOthersPushed);
  manager_->lose({"rules", 1, 1, "there are no rules at rules", "expected some"});
  EXPECT_EQ(refused(kTwenty, 409),
            "the rules in Redis cannot be read: there are no rules at rules; expected rules there, "
            "as sluice rules push FILE publishes them");
}

TEST_F(PushedPatch, ARollbackToTheActiveRulesIsPushed) {
  open_with(Outcome::kPushed);
  const Answered answered = call("POST", "/v1/rules/rollback?version=1");
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_EQ(answered.json().at("changed"), false);
  EXPECT_EQ(answered.json().at("where"), "all servers");
  EXPECT_EQ(pushed_, std::vector<std::string>{"rollback to version 1 from 127.0.0.1"});
}

TEST_F(PushedPatch, ARollbackToRulesThatWerePut) {
  open_with(Outcome::kPushed);
  ASSERT_TRUE(manager_->replace("version: 1\nrules: []\n", "PUT /v1/rules"));
  ASSERT_TRUE(*manager_->reload());
  on_push_ = [this] {  // the name that PushedRules gives them
    ASSERT_TRUE(manager_->follow({{"redis:PUT /v1/rules", "version: 1\nrules: []\n"}}, "a push"));
  };
  const Answered answered = call("POST", "/v1/rules/rollback?version=2");
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_EQ(get("/v1/rules").body, "version: 1\nrules: []\n");
}

TEST_F(PushedPatch, ChangesThisServerIfThePushFails) {
  open_with(Unexpected{PushFailure{"no answer"}});
  const auto json = patch(kDeny).json();
  EXPECT_TRUE(manager_->history().front().by.ends_with(", on this server only"));
  EXPECT_EQ(json.at("note"), "the rules in Redis are not changed: no answer");
  EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny);
}

TEST_F(PushedPatch, ChangesThisServerIfTheRulesAreLost) {
  open_with(Outcome::kOthersPushed);
  manager_->lose({"rules", 1, 1, "there are no rules at rules", "expected some"});
  const auto json = patch(kDeny).json();
  EXPECT_EQ(json.at("note"), "the rules in Redis are not changed: there are no rules at rules");
  EXPECT_EQ(policy_of("api"), FailurePolicy::kDeny);
}

TEST_F(RulePatch, AnUnknownRuleIsAnsweredWithTheFirstOfMany) {
  std::string many = "version: 1\nrules:\n";
  for (int i = 1; i <= 22; ++i) {
    many += "  - { name: r" + std::to_string(i) + ", match: { path: /" + std::to_string(i) +
            " }, action: deny }\n";
  }
  open({many});
  const std::string detail = refused(kDeny, 404, "/v1/rules/r0");
  EXPECT_TRUE(detail.ends_with(", r19, r20 and 2 more; did you mean 'r1'?")) << detail;
  EXPECT_EQ(get("/v1/keys?rule=r0").detail(), detail);
}

TEST_F(RulePatch, OtherMethodsAreNotForOneRule) {
  open({kRules});
  const Answered answered = get("/v1/rules/api");
  EXPECT_EQ(answered.status, 405);
  EXPECT_TRUE(answered.has("Allow", "PATCH"));
}

}  // namespace
}  // namespace sluice::server::rule_patch_page_test
