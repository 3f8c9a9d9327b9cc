#include <gtest/gtest.h>

#include "server/api/admin/test_endpoint.h"

namespace sluice::server::overrides_page_test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kRules = R"(
version: 1
plans:
  free: { requests: { limit: 2, per: 1m } }
  pro: { requests: { limit: 5, per: 1m } }
rules:
  - name: api
    plan: { from: "{header.x-plan}", default: free }
    limits:
      - { name: requests, key: "{header.x-customer}", algorithm: token_bucket }
  - name: all
    limits: [ { algorithm: fixed_window, limit: 1, per: 1s } ]
)";
constexpr const char* kPath = "/v1/overrides/api/requests";

class OverridesPage : public TestAdmin {
 protected:
  OverridesPage() {
    open({kRules});
    overrides_ = std::move(ServerOverrides::open("").value());
    reopen();
  }
  Answered set(const std::string& terms, const char* path = kPath) {
    return call("PUT", path, {}, R"({"attributes":{"header.x-customer":"7"},)" + terms + "}");
  }
};

TEST_F(OverridesPage, TheLogSaysThatAKeyIsBlocked) {
  EXPECT_EQ(set(R"("blocked":true)").status, 200);
  EXPECT_EQ(done_.back(), "key blocked: default|api|requests|header.x-customer=7 by 127.0.0.1");
}

TEST_F(OverridesPage, SetsShowsAndRemovesOne) {
  const Answered answered = set(R"("limit":100,"per":"2m","until":"2100-01-01T00:00:00Z")");
  EXPECT_EQ(answered.status, 200) << answered.body;
  const std::string shown =
      R"({"counter":"default|api|requests|header.x-customer=7","limit":100,"per":"2m",)"
      R"("until":"2100-01-01T00:00:00.000000Z"})"
      "\n";
  EXPECT_EQ(answered.json().at("was"), "2 per 1m");
  EXPECT_EQ(get(std::string(kPath) + "?header.x-customer=7").body, shown);
  EXPECT_EQ(done_.back(),
            "override set: default|api|requests|header.x-customer=7: limit 100 per 2m, until "
            "2100-01-01T00:00:00Z by 127.0.0.1");
  EXPECT_EQ(get("/v1/status").json().at("overrides"), 1);
  EXPECT_FALSE(answered.json().as_object().contains("replaced"));
  EXPECT_EQ(call("DELETE", std::string(kPath) + "?header.x-customer=7").body, shown);
  EXPECT_EQ(get(std::string(kPath) + "?header.x-customer=7").status, 404);
  EXPECT_EQ(call("DELETE", std::string(kPath) + "?header.x-customer=7").detail(),
            "there is no override of default|api|requests|header.x-customer=7");
}

TEST_F(OverridesPage, ChangesTheNumbersOfKeys) {
  const std::string keys = "/v1/keys?rule=api&header.x-customer=7";
  const auto expect = [&](const std::string& query, int limit, const char* plan) {
    const boost::json::value shown = get(query).json().at("limits").at(0);
    EXPECT_EQ(shown.at("limit"), limit);
    EXPECT_EQ(shown.at("plan"), plan);
  };
  expect(keys, 2, "free");
  expect(keys + "&header.x-plan=pro", 5, "pro");
  EXPECT_EQ(set(R"("limit":9)").status, 200);
  expect(keys, 9, "free");
  const auto answer = set(R"("plan":"pro")").json();
  EXPECT_EQ(answer.at("was"), "9 per 1m");
  EXPECT_EQ(boost::json::serialize(answer.at("replaced")), R"({"limit":9})");
  expect(keys, 5, "pro");
  EXPECT_EQ(set(R"("unlimited":true)").json().at("was"), "5 per 1m");
  EXPECT_EQ(set(R"("blocked":true)").json().at("was"), "unlimited");
  EXPECT_EQ(set(R"("limit":3)").json().at("was"), "blocked");
}

TEST_F(OverridesPage, ALeaseIsOfPermits) {
  EXPECT_EQ(set(R"("limit":500,"lease":"100ms")").detail(),
            "'lease' is for 'concurrency'; expected 'per'");
  EXPECT_EQ(overrides_->all().size(), 0U);
  open({R"(version: 1
rules: [ { name: all, limits: [ { name: l, algorithm: concurrency, limit: 2, lease: 1m } ] } ]
)"});
  const auto given = call("PUT", "/v1/overrides/all/l", {}, R"({"limit":5,"lease":"10s"})");
  EXPECT_EQ(given.status, 200) << given.body;
  EXPECT_EQ(given.json().at("per"), "10s");
}

TEST_F(OverridesPage, EndsAfterAPeriod) {
  const Instant before = SystemClock().now();
  EXPECT_EQ(set(R"("limit":9,"for":"1h")").status, 200);
  const auto given = overrides_->all().find("default|api|requests|header.x-customer=7");
  ASSERT_TRUE(given && given->until);
  EXPECT_GE(*given->until, before + 1h);
  EXPECT_LE(*given->until, SystemClock().now() + 1h);
  EXPECT_EQ(set(R"("limit":9,"for":"1h","until":"2100-01-01T00:00:00Z")").detail(),
            "the override says twice when it ends; expected one of 'for' and 'until'");
  EXPECT_EQ(set(R"("limit":9,"for":"367d")").detail(),
            "'for': '367d' is out of range; expected 1ms to 366d");
  EXPECT_EQ(set(R"("limit":9,"for":"soon")").status, 400);
}

TEST_F(OverridesPage, NamesNoPlanThatIsGone) {
  EXPECT_EQ(set(R"("plan":"pro")").status, 200);
  std::string rules = kRules;
  rules.replace(rules.find("pro:"), 4, "big:");
  open({rules});
  const boost::json::value shown =
      get("/v1/keys?rule=api&header.x-customer=7").json().at("limits").at(0);
  EXPECT_EQ(shown.at("limit"), 2);
  EXPECT_EQ(shown.at("plan"), "free");
  EXPECT_EQ(shown.at("override"), (boost::json::value{{"plan", "pro"}, {"effective", false}}));
}

TEST_F(OverridesPage, ListsThemInPages) {
  for (int i = 0; i < 25; ++i) {
    const std::string customer = std::to_string(i);
    ASSERT_EQ(call("PUT", kPath, {},
                   R"({"attributes":{"header.x-customer":")" + customer + R"("},"blocked":true})")
                  .status,
              200);
  }
  EXPECT_EQ(call("PUT", "/v1/overrides/all/all%2F0", {}, R"({"unlimited":true})").status, 200);
  std::size_t seen = 0;
  std::string query = "/v1/overrides?rule=api&count=10";
  for (std::string cursor = "0"; !cursor.empty();) {
    const auto json = get(query + "&cursor=" + cursor).json();
    EXPECT_EQ(json.at("total").as_int64(), 26);
    seen += json.at("overrides").as_array().size();
    const auto* next = json.as_object().if_contains("next");
    cursor = next != nullptr ? std::string(next->as_string()) : "";
  }
  EXPECT_EQ(seen, 25U);
  EXPECT_EQ(get("/v1/overrides?rule=x").detail(), "there is no rule 'x', and no override of it");
}

TEST_F(OverridesPage, ABudgetThatHasLeftItsRowIsNone) {
  const auto rules = [](const std::string& name) {
    return "version: 1\nrules:\n  - name: llm\n    limits:\n      - name: " + name +
           "\n        algorithm: budget\n        limit: 9\n        per: month\n"
           "        overflow: { name: credits, limit: 5, per: never }\n";
  };
  open({rules("month")});
  ASSERT_EQ(call("PUT", "/v1/overrides/llm/month", {}, R"({"limit":5})").status, 200);
  ASSERT_EQ(put(rules("monthly")).status, 200);
  EXPECT_EQ(manager_->status().limits, 2U);
  const std::string none =
      "the rule 'llm' has no limit 'month'; expected one of: monthly or credits";
  EXPECT_EQ(call("PUT", "/v1/overrides/llm/month", {}, R"({"limit":5})").detail(), none);
  const Answered imported =
      call("POST", "/v1/overrides", {}, "{\"counter\":\"default|llm|month\",\"limit\":5}\n");
  EXPECT_EQ(imported.detail(), none);
  EXPECT_EQ(imported.json().at("unknown"), true);
  const auto limits = get("/v1/keys?rule=llm").json().at("limits").as_array();
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_EQ(limits[0].at("name"), "monthly");
  EXPECT_EQ(get("/v1/keys?rule=llm&limit=month").status, 404);
  EXPECT_EQ(call("DELETE", "/v1/overrides?counter=default|llm|month").status, 200);
}

TEST_F(OverridesPage, ListsAndRemovesThoseOfARuleThatIsGone) {
  ASSERT_TRUE(overrides_->set("default|old|l|k=1", {.limit = 9}));
  ASSERT_TRUE(overrides_->set("other|old|l|k=50%25", {.limit = 9}));
  ASSERT_TRUE(overrides_->set("default|older|l|k=1", {.limit = 9}));
  EXPECT_EQ(get("/v1/overrides?rule=old").json().at("overrides").as_array().size(), 2U);
  const auto remove = [&](const std::string& query) {
    return call("DELETE", "/v1/overrides" + query);
  };
  EXPECT_EQ(remove("?counter=default%7Cold%7Cl%7C%256b=1").body,
            "{\"counter\":\"default|old|l|k=1\",\"limit\":9}\n");
  EXPECT_EQ(done_.back(), "override removed: default|old|l|k=1 by 127.0.0.1");
  EXPECT_EQ(remove("?counter=default|old|l|k=1").detail(),
            "there is no override of default|old|l|k=1");
  EXPECT_EQ(remove("?counter=other|old|l|k=50%2525").status, 200);
  EXPECT_EQ(remove("?counter=other|old|l|k=50%25").detail(),
            "'%' in the counter is not an escape; expected %25 for %");
  EXPECT_EQ(remove("").detail(),
            "the counter is missing; expected ?counter=COUNTER, as GET /v1/overrides shows it");
  EXPECT_EQ(overrides_->all().size(), 1U);
}

TEST_F(OverridesPage, ListsThoseOfARuleOfAnotherDomain) {
  ASSERT_TRUE(overrides_->set("other|api|requests|header.x-customer=7", {.limit = 9}));
  EXPECT_EQ(set(R"("limit":9)").status, 200);
  EXPECT_EQ(get("/v1/overrides?rule=api").json().at("overrides").as_array().size(), 2U);
  EXPECT_EQ(get("/v1/overrides?rule=all").json().at("overrides").as_array().size(), 0U);
}

TEST_F(OverridesPage, RefusesACursorThatIsNoNumber) {
  EXPECT_EQ(get("/v1/overrides?cursor=x").detail(),
            "'cursor' is 'x'; expected a whole number from 0 to 18446744073709551615");
  for (const std::string count : {"many", "0", "10001"}) {
    EXPECT_EQ(get("/v1/overrides?count=" + count).detail(),
              "'count' is '" + count + "'; expected a whole number from 1 to 10000");
  }
}

TEST_F(OverridesPage, ListsAGoneRuleInPages) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(overrides_->set("default|old|l|k=" + std::to_string(i), {.limit = 9}));
    ASSERT_TRUE(overrides_->set("default|api|requests|k=" + std::to_string(i), {.limit = 9}));
  }
  std::size_t seen = 0;
  for (std::string cursor = "0"; !cursor.empty();) {
    const auto json = get("/v1/overrides?rule=old&count=7&cursor=" + cursor).json();
    seen += json.at("overrides").as_array().size();
    const auto* next = json.as_object().if_contains("next");
    cursor = next != nullptr ? std::string(next->as_string()) : "";
  }
  EXPECT_EQ(seen, 50U);
}

TEST_F(OverridesPage, RefusesWhatIsWrong) {
  EXPECT_EQ(set(R"("limit":1)", "/v1/overrides/apo/requests").detail(),
            "there is no rule 'apo'; expected one of: api or all");
  EXPECT_EQ(set(R"("limit":1)", "/v1/overrides/apo/requests").status, 404);
  EXPECT_EQ(set(R"("limit":1)", "/v1/overrides/api/request").detail(),
            "the rule 'api' has no limit 'request'; expected one of: requests");
  EXPECT_EQ(set(R"("limit":1)", "/v1/overrides/api").status, 404);
  EXPECT_EQ(set(R"("plan":"gold")").detail(),
            "there is no plan 'gold'; expected one of: free or pro");
  EXPECT_EQ(set(R"("limit":-1)").detail(),
            "'limit' is -1; expected a whole number from 0 to 9007199254740991");
  EXPECT_EQ(set(R"("limit":4294967296)").status, 400);
  EXPECT_EQ(set(R"("limit":1,"blocked":true)").detail(),
            "the override says more than one thing; expected attributes, one of limit, plan, "
            "blocked and unlimited, and per, burst, for or until");
  EXPECT_EQ(set(R"("until":"2100-01-01T00:00:00Z")").status, 400);
  EXPECT_EQ(set(R"("limit":1,"until":"2000-01-01T00:00:00Z")").detail(),
            "'until' is 2000-01-01T00:00:00Z; expected an instant in the future");
  EXPECT_EQ(set(R"("limit":1,"until":"2200-01-01T00:00:00Z")").detail(),
            "'until' is '2200-01-01T00:00:00Z'; expected an instant from 1970 to 2112");
  EXPECT_EQ(set(R"("limits":1)").detail().substr(0, 24), "unknown member 'limits';");
  EXPECT_EQ(call("PUT", kPath, {}, "[]").detail(),
            "the body is not a JSON object; expected {\"attributes\":{...},\"limit\":100}");
  EXPECT_EQ(set(R"("limit":1,"lim\u0069t":2)").detail(),
            "the member 'limit' is given twice; expected it once");
  EXPECT_EQ(set(R"("limit":1,"attributes":{})").detail(),
            "the member 'attributes' is given twice; expected it once");
  EXPECT_EQ(set(R"("limit":1,"per":"1m","lease":"1m")").detail(),
            "'per' and 'lease' mean the same; expected one of them");
  EXPECT_EQ(
      call("PUT", kPath, {}, R"({"attributes":{"header.x-customer":"7","limt":"1"},"limit":1})")
          .detail(),
      "the key of the limit 'requests' does not read the attribute 'limt'; expected "
      "header.x-customer");
  EXPECT_EQ(set(R"("limit":1)", "/v1/overrides/all/all%2F0").detail(),
            "the key of the limit 'all/0' does not read the attribute 'header.x-customer'; "
            "expected no attributes");
  const Answered long_key =
      call("PUT", kPath, {},
           R"({"attributes":{"header.x-customer":")" + std::string(2048, 'x') + R"("},"limit":1})");
  EXPECT_EQ(long_key.status, 400);
  EXPECT_EQ(long_key.detail(), "the key has 2087 bytes; expected at most 2048");
  EXPECT_EQ(call("PUT", kPath, {}, R"({"limit":1})").detail(),
            "an attribute of the key '{header.x-customer}' of the limit 'requests' is missing; "
            "expected all of them");
  EXPECT_EQ(call("POST", kPath).status, 405);
  EXPECT_EQ(overrides_->all().size(), 0U);
}

TEST_F(OverridesPage, RefusesMoreThanThereMayBe) {
  overrides_ = std::move(ServerOverrides::open("", 1).value());
  reopen();
  EXPECT_EQ(set(R"("limit":1)").status, 200);
  EXPECT_EQ(set(R"("limit":2)").status, 200) << "the same key";
  const Answered refused = call("PUT", "/v1/overrides/api/requests", {},
                                R"({"attributes":{"header.x-customer":"8"},"limit":1})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.detail(), "there are 1 overrides, as many as there may be; expected fewer");
}

}  // namespace
}  // namespace sluice::server::overrides_page_test
