#include <gtest/gtest.h>

#include <string>

#include "insight/top_keys.h"
#include "server/api/admin/test_endpoint.h"

namespace sluice::server::top_page_test {
namespace {

constexpr const char* kRules = R"(version: 1
rules:
  - name: order
    limits:
      - { name: user, key: "{ip}", algorithm: gcra, limit: 1, per: 1s }
      - { name: all, algorithm: gcra, limit: 1, per: 1s }
)";

class TopPage : public TestAdmin {
 protected:
  void SetUp() override {
    open({kRules});
    recorder_.use(manager_->current());
  }
  void ask(std::string_view label, bool denied = false) {
    RuleAnswer answer;
    const RuleSet rules = manager_->current();
    answer.rule = rules.rules().data();
    Decision decision;
    if (denied) decision.outcome = Outcome::kDenied;
    answer.limits.push_back({answer.rule, &answer.rule->limits[0], {}, label, decision});
    recorder_.count(answer);
    recorder_.hand_over();
    top_keys_.collect(rules);
  }
  std::string first_key() {
    const auto json = get("/v1/top?by=asked").json();
    return std::string(json.at_pointer("/limits/0/keys/0/key").as_string());
  }

  insight::KeyRecorder& recorder_ = top_keys_.make_recorder();
};

TEST_F(TopPage, CountsTheDenialsOfOneKey) {
  ask("192.0.2.7", true);
  ask("192.0.2.7", true);
  ask("192.0.2.8");
  const auto of = [&](const std::string& ip) {
    return get("/v1/keys?rule=order&ip=" + ip).json().at_pointer("/limits/0").as_object();
  };
  EXPECT_EQ(boost::json::serialize(of("192.0.2.7").at("denied")),
            R"({"minute":2,"hour":2,"day":2})");
  EXPECT_FALSE(of("192.0.2.8").contains("denied"));
}

TEST_F(TopPage, ShowsTheKeysOfEachLimit) {
  ask("user-7", true);
  ask("user-7", true);
  ask("user-8");
  EXPECT_EQ(get("/v1/top?rule=order&limit=user&by=denied&over=minute&count=20").body,
            R"({"by":"denied","over":"minute","seconds":0,"hashed":false,"limits":[)"
            R"({"rule":"order","limit":"user","total":2,"keys":[)"
            R"({"key":"user-7","count":2,"error":0}]}]})"
            "\n");
  EXPECT_EQ(get("/v1/top").body,
            get("/v1/top?rule=order&limit=user&by=denied&over=minute&count=20").body);
  EXPECT_EQ(get("/v1/top").body, get("/v1/top?rule=order&by=denied&n=20").body);
  const auto asked = get("/v1/top?by=asked&over=day&count=1").json();
  EXPECT_EQ(asked.at("over"), "day");
  EXPECT_EQ(asked.at_pointer("/limits/0/total"), 3);
  EXPECT_EQ(asked.at_pointer("/limits/0/keys").as_array().size(), 1U);
  EXPECT_EQ(get("/v1/top?by=asked&over=day&n=1").json(), asked);
}

TEST_F(TopPage, SaysWhoHadTheKeyOfTheLatestDenial) {
  ask("user-7", true);
  ask("user-7", true);
  ask("user-8", true);
  Log log({}, -1);
  DenialLog denials(log);
  for (const std::string_view agent : {"old/1", "curl/8\u202E"}) {
    const Attributes request{{"ip", "192.0.2.1"}, {"header.user-agent", agent}};
    denials.write("order", "user", "user-7", Decision::refused(Reason::kLimited), {}, &request);
  }
  endpoint_->denials = &denials;
  const auto keys = get("/v1/top").json().at_pointer("/limits/0/keys").as_array();
  EXPECT_EQ(keys.at(0).at("latest").at("client"), "192.0.2.1");
  EXPECT_EQ(keys.at(0).at("latest").at("agent"), "curl/8\u202E");
  EXPECT_FALSE(keys.at(1).as_object().contains("latest"));
}

TEST_F(TopPage, SaysWhatAParameterShouldBe) {
  const auto refusal = [&](const std::string& query, int status = 400) {
    const Answered answer = get("/v1/top?" + query);
    EXPECT_EQ(answer.status, status) << query;
    return answer.detail();
  };
  EXPECT_EQ(refusal("by=count"), "'by' is 'count'; expected asked or denied");
  EXPECT_EQ(refusal("by=0"), "'by' is '0'; expected asked or denied");
  EXPECT_EQ(refusal("over=week"), "'over' is 'week'; expected minute, hour or day");
  for (const std::string number : {"0", "257", "-1", "1x", ""}) {
    EXPECT_EQ(refusal("count=" + number),
              "'count' is '" + number + "'; expected a whole number from 1 to 256");
  }
  EXPECT_EQ(refusal("limit=user"), "'limit' needs a rule; expected rule=NAME too");
  EXPECT_EQ(refusal("rule=none", 404), "there is no rule 'none'; expected one of: order");
  EXPECT_EQ(refusal("rule=order&limit=no", 404),
            "rule 'order' has no limit 'no'; expected one of: user, all");
  EXPECT_EQ(call("PUT", "/v1/top").status, 405);
}

TEST_F(TopPage, EscapesWhatATerminalOrABrowserCouldObey) {
  ask("\x1b[2J\u202Eevil\u200F\x7F\xFF\"\u009B");
  EXPECT_NE(get("/v1/top?by=asked")
                .body.find(R"("\u001b[2J\u202eevil\u200f\u007f)"
                           "\uFFFD"
                           R"(\"\u009b")"),
            std::string::npos);
  EXPECT_EQ(first_key(), "\x1b[2J\u202Eevil\u200F\x7F\uFFFD\"\u009B");
}

TEST_F(TopPage, SaysThatAKeyIsNotUtf8) {
  ask("mallory\xFF");
  EXPECT_EQ(first_key(), "mallory\uFFFD");
  EXPECT_EQ(get("/v1/top?by=asked").json().at_pointer("/limits/0/keys/0/not_utf8"), true);
}

TEST_F(TopPage, CutsLongKeys) {
  ask(std::string(1 << 20, 'x'));
  const auto json = get("/v1/top?by=asked").json();
  EXPECT_EQ(json.at_pointer("/limits/0/keys/0/cut"), true);
  EXPECT_EQ(first_key().substr(0, 83), std::string(79, 'x') + "… ");
}

TEST_F(TopPage, SaysThatKeysAreNotCounted) {
  counts_keys_ = false;
  reopen();
  EXPECT_EQ(get("/v1/top").status, 404);
}

}  // namespace
}  // namespace sluice::server::top_page_test
