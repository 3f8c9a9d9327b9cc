#include <filesystem>

#include "server/api/admin/test_endpoint.h"

namespace sluice::server {
namespace {

class RulesPage : public TestAdmin {};

TEST_F(RulesPage, ShowsTheTextAsItWasRead) {
  const std::string text = "# a comment\n" + rules_named("r");
  open({text});
  const Answered answered = get("/v1/rules");
  EXPECT_EQ(answered.status, 200);
  EXPECT_EQ(answered.type, "application/yaml");
  EXPECT_EQ(answered.body, text);
  EXPECT_TRUE(answered.has("X-Sluice-Rules-Version", "1"));
  EXPECT_EQ(answered.field("ETag").find("\"1-"), 0U);
}

TEST_F(RulesPage, ShowsTheBuiltInExampleWhichCanBePutBack) {
  open({});
  const Answered answered = get("/v1/rules");
  EXPECT_NE(answered.body.find("name: login"), std::string::npos);
  EXPECT_EQ(put(answered.body).status, 200);
}

TEST_F(RulesPage, ListsSeveralFilesAndShowsEach) {
  open({rules_named("first"), rules_named("second")});
  const Answered list = get("/v1/rules");
  EXPECT_EQ(list.status, 200);
  EXPECT_EQ(list.type, "application/json");
  EXPECT_EQ(list.json().at("version"), 1);
  EXPECT_EQ(list.json().at("files").at(1).at("name").as_string(), folder_ / "1.yaml");
  EXPECT_EQ(list.json().at("files").at(1).at("bytes"), rules_named("second").size());
  EXPECT_EQ(get("/v1/rules?file=1.yaml").body, rules_named("second"));
  EXPECT_EQ(get("/v1/rules?file=" + folder_ / "0.yaml").body, rules_named("first"));
  EXPECT_EQ(get("/v1/rules?file=1.yaml").field("ETag"), list.field("ETag"));
  const Answered none = get("/v1/rules?file=yaml");
  EXPECT_EQ(none.status, 404);
  EXPECT_NE(none.detail().find("no single file 'yaml'"), std::string::npos);
}

TEST_F(RulesPage, AnAmbiguousFileNameNeedsItsPath) {
  std::filesystem::create_directory(folder_ / "a");
  std::filesystem::create_directory(folder_ / "b");
  folder_.write("a/x.yaml", rules_named("a"));
  folder_.write("b/x.yaml", rules_named("b"));
  manager_ = *RulesManager::open({folder_ / "a", folder_ / "b"});
  reopen();
  EXPECT_EQ(get("/v1/rules?file=x.yaml").status, 404);
  EXPECT_EQ(get("/v1/rules?file=b/x.yaml").body, rules_named("b"));
}

TEST_F(RulesPage, PutReplacesTheRulesAndReturnsTheirNumbers) {
  open({rules_named("r")});
  const Answered answered = put(rules_named("new"));
  EXPECT_EQ(answered.status, 200);
  EXPECT_EQ(answered.body, "{\"version\":2,\"rules\":1,\"limits\":1}\n");
  EXPECT_TRUE(answered.has("X-Sluice-Rules-Version", "2"));
  EXPECT_NE(manager_->current().find("new"), nullptr);
  EXPECT_EQ(get("/v1/rules").body, rules_named("new"));
  EXPECT_EQ(get("/v1/rules").field("ETag"), answered.field("ETag"));
  EXPECT_EQ(done_, std::vector<std::string>{"rules replaced: version 2 by 127.0.0.1"});
}

TEST_F(RulesPage, PutRefusesWarningsIfItIsStrict) {
  open({rules_named("r")});
  const std::string warned =
      "version: 1\nrules:\n  - name: w\n    match: { path: /a%20b }\n"
      "    limits: [{ key: \"{ip}\", algorithm: gcra, limit: 1, per: 1s }]\n";
  const Answered refused = call("PUT", "/v1/rules?strict=true", {}, warned);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.detail().find("PUT /v1/rules:4:"), std::string::npos) << refused.body;
  EXPECT_NE(refused.detail().find(": warning: "), std::string::npos) << refused.body;
  EXPECT_EQ(refused.json().at("errors").as_array().size(), 1U);
  EXPECT_EQ(manager_->version(), 1U);
  EXPECT_NE(call("PUT", "/v1/rules?strict=true", {}, "rules: 1\n").detail().find("error: "),
            std::string::npos);
  EXPECT_EQ(call("PUT", "/v1/rules?strict=yes", {}, warned).status, 400);
  EXPECT_EQ(call("PUT", "/v1/rules?strict=true", {}, rules_named("new")).status, 200);
  const Answered taken = call("PUT", "/v1/rules?strict=false", {}, warned);
  EXPECT_EQ(taken.status, 200);
  EXPECT_EQ(taken.json().at("warnings").as_array().size(), 1U);
}

TEST_F(RulesPage, CountersContinueUnderNewNumbers) {
  open({rules_named("r", 5)});
  const Limit limit = manager_->current().find("r")->limits[0].limit;
  const Charge charge{
      .key = "default|r|all", .limit = limit, .cost = 3, .rule = {Keyspace::kRules}};
  EXPECT_TRUE(limiter_.store().apply_one(Verb::kTake, charge, {}));
  EXPECT_EQ(put(rules_named("r", 4)).status, 200);
  EXPECT_EQ(get("/v1/keys?rule=r").json().at("limits").at(0).at("remaining"), 1);
}

TEST_F(RulesPage, PutRefusesBadRulesWithTheirPlaces) {
  open({rules_named("r")});
  const Answered answered = put("version: 1\nrules:\n  - nam: x\n    limits: 7\n");
  EXPECT_EQ(answered.status, 400);
  EXPECT_EQ(answered.type, "application/problem+json");
  const auto json = answered.json();
  EXPECT_EQ(json.at("status"), 400);
  const auto& errors = json.at("errors").as_array();
  ASSERT_GE(errors.size(), 2U);
  EXPECT_EQ(answered.detail().find("PUT /v1/rules:3:5: error: "), 0U) << answered.detail();
  for (const auto& error : errors) {
    EXPECT_EQ(error.at("file"), "PUT /v1/rules");
    EXPECT_GE(error.at("line").as_int64(), 3);
    EXPECT_FALSE(error.at("what").as_string().empty());
    EXPECT_TRUE(error.at("expected").is_string());
    EXPECT_GE(error.at("column").as_int64(), 5);
  }
  EXPECT_EQ(manager_->version(), 1U);
  EXPECT_TRUE(done_.empty());
  EXPECT_EQ(put("").status, 400);
  EXPECT_EQ(put("\xFF").json().at("errors").as_array().size(), 1U);
}

TEST_F(RulesPage, PutFollowsIfMatch) {
  open({rules_named("r")});
  const std::string tag = get("/v1/rules").field("ETag");
  EXPECT_EQ(put(rules_named("a"), {{"If-Match", tag}}).status, 200);
  const Answered stale = put(rules_named("b"), {{"If-Match", tag}});
  EXPECT_EQ(stale.status, 412);
  EXPECT_EQ(stale.json().at("title"), "Precondition Failed");
  EXPECT_TRUE(stale.has("X-Sluice-Rules-Version", "2"));
  EXPECT_EQ(manager_->version(), 2U);
  EXPECT_EQ(put(rules_named("b"), {{"If-Match", "1"}}).status, 412);
  EXPECT_EQ(put(rules_named("b"), {{"If-Match", "\"\""}}).status, 412);
  EXPECT_EQ(put(rules_named("b"), {{"If-Match", "2"}}).status, 200);
  EXPECT_EQ(put(rules_named("c"), {{"If-Match", "\"7\" , \"3\""}}).status, 200);
  EXPECT_EQ(put(rules_named("d"), {{"If-Match", "*"}}).status, 200);
}

TEST_F(RulesPage, TagsOfOtherRulesDifferEvenAtTheSameVersion) {
  open({rules_named("a")});
  const std::string tag = get("/v1/rules").field("ETag");
  open({rules_named("b")});
  EXPECT_NE(get("/v1/rules").field("ETag"), tag);
  EXPECT_EQ(put(rules_named("c"), {{"If-Match", tag}}).status, 412);
}

TEST_F(RulesPage, PutOverSeveralFilesMustSaySo) {
  open({rules_named("first"), rules_named("second")});
  EXPECT_EQ(put(rules_named("r")).status, 409);
  EXPECT_EQ(call("PUT", "/v1/rules?file=0.yaml", {}, rules_named("r")).status, 400);
  EXPECT_EQ(manager_->version(), 1U);
  EXPECT_EQ(call("PUT", "/v1/rules?file=*", {}, rules_named("r")).status, 200);
  EXPECT_EQ(manager_->current().rules().size(), 1U);
}

TEST_F(RulesPage, AcceptsEveryContentTypeOfYaml) {
  open({rules_named("r")});
  for (const char* type :
       {"application/yaml", "Application/YAML; charset=utf-8", "text/x-yaml", "text/plain"}) {
    EXPECT_EQ(put(rules_named("a"), {{"Content-Type", type}}).status, 200) << type;
  }
  for (const char* type : {"application/x-www-form-urlencoded", "multipart/form-data", ""}) {
    const Answered refused = put(rules_named("b"), {{"Content-Type", type}});
    EXPECT_EQ(refused.status, 415) << type;
    EXPECT_TRUE(refused.has("Accept", "application/yaml"));
    EXPECT_EQ(call("POST", "/v1/rules/validate", {{"Content-Type", type}}, "").status, 415);
  }
}

TEST_F(RulesPage, ValidateReportsTheSameAndChangesNothing) {
  open({rules_named("r")});
  const Answered good = call("POST", "/v1/rules/validate", {}, rules_named("new"));
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(good.json().at("version"), 1);
  EXPECT_EQ(good.json().at("rules"), 1);
  EXPECT_EQ(good.json().at("limits"), 1);
  const Answered bad = call("POST", "/v1/rules/validate", {}, "version: 3\nrules: []\n");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.detail().find("POST /v1/rules/validate:1:10: error: "), 0U) << bad.detail();
  EXPECT_EQ(manager_->version(), 1U);
  EXPECT_TRUE(done_.empty());
}

TEST_F(RulesPage, ValidateKnowsWhatTheStoreCannotDo) {
  manager_ =
      *RulesManager::open_source({{"a", "version: 1\nrules: []\n"}}, clock_, {.scripting = false});
  reopen();
  const std::string rules =
      "version: 1\nrules: [ { name: a, limits: [ { algorithm: gcra, limit: 1, per: 1s } ] } ]\n";
  const auto error_of = [](const Answered& answered) {
    EXPECT_EQ(answered.status, 400) << answered.body;
    return answered.json().at("errors").at(0).at("what");
  };
  EXPECT_EQ(error_of(call("POST", "/v1/rules/validate", {}, rules)), error_of(put(rules)));
}

TEST_F(RulesPage, ValidateSaysWhatDiffersFromTheActiveRules) {
  open({rules_named("a"), rules_named("b")});
  const auto differences = [&](const std::string& text) {
    return call("POST", "/v1/rules/validate", {}, text).json().at("differences").as_array();
  };
  std::string both = rules_named("a") + rules_named("b").substr(rules_named("b").find("  - "));
  EXPECT_TRUE(differences("# the same\n" + both).empty());
  const auto removed = differences(rules_named("a"));
  ASSERT_EQ(removed.size(), 1U);
  EXPECT_EQ(removed[0], (boost::json::value{{"change", "removed"}, {"rule", "b"}}));
  const std::size_t at = both.find("limit: ");
  both.replace(at, both.find_first_of(",\n}", at) - at, "limit: 77");
  const auto changed = differences(both);
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].at("change"), "changed");
  EXPECT_EQ(changed[0].at("key"), "limit");
  EXPECT_EQ(changed[0].at("new"), "77");
}

TEST_F(RulesPage, ValidateListsAThousandDifferencesAtMost) {
  open({rules_named("a")});
  std::string many = "version: 1\nrules:\n";
  for (int i = 0; i < 1001; ++i) {
    many += "  - { name: r" + std::to_string(i) + ", match: { path: /" + std::to_string(i) +
            " }, action: deny }\n";
  }
  const auto said = call("POST", "/v1/rules/validate", {}, many).json();
  EXPECT_EQ(said.at("differences").as_array().size(), 1000U);
  EXPECT_EQ(said.at("more_differences"), true);
}

TEST_F(RulesPage, ReloadReadsTheFiles) {
  open({rules_named("r")});
  EXPECT_EQ(call("POST", "/v1/rules/reload").json().at("changed"), false);
  folder_.write("0.yaml", rules_named("new"));
  const Answered changed = call("POST", "/v1/rules/reload");
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.body, "{\"version\":2,\"changed\":true,\"rules\":1,\"limits\":1}\n");
  EXPECT_NE(manager_->current().find("new"), nullptr);
}

TEST_F(RulesPage, ReloadOfBadFilesKeepsTheRulesAndReportsTheErrors) {
  open({rules_named("r")});
  folder_.write("0.yaml", "version: 1\nrules: 7\n");
  const Answered answered = call("POST", "/v1/rules/reload");
  EXPECT_EQ(answered.status, 409);
  EXPECT_EQ(answered.json().at("errors").at(0).at("file").as_string(), folder_ / "0.yaml");
  EXPECT_EQ(answered.json().at("errors").at(0).at("line"), 2);
  EXPECT_EQ(answered.detail().find(folder_ / "0.yaml" + ":2:8: error: "), 0U);
  EXPECT_NE(manager_->current().find("r"), nullptr);
  EXPECT_EQ(get("/v1/status").json().at("rules").at("failures"), 1);
}

TEST_F(RulesPage, ReloadWithoutFilesReportsThatThereAreNone) {
  open({});
  EXPECT_EQ(call("POST", "/v1/rules/reload").status, 409);
}

TEST_F(RulesPage, ReloadCallsTheServersReload) {
  open({rules_named("r")});
  int reloads = 0;
  const AdminEndpoint endpoint{
      .rules = *manager_,
      .limiter = limiter_,
      .token = token_,
      .status = {},
      .reload = [&]() -> Expected<bool, RulesManager::Errors> { return ++reloads > 0; }};
  http::Request request;
  request.method = "POST";
  request.target = "/v1/rules/reload";
  http::Response response;
  endpoint.handle(request, response);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(reloads, 1);
}

}  // namespace
}  // namespace sluice::server
