#include "server/api/check/check_endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "tests/support/allocations.h"

namespace sluice::server {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr std::string_view kRules = R"(
version: 1
rules:
  - name: code
    match: { path: /send/code }
    limits: [ { name: email, key: "{body.email}", algorithm: fixed_window, limit: 1, per: 60s, on_missing: deny } ]
    reject: { status: 503, body: '{"message":"请求过于频繁"}', headers: { X-Wait: "{retry_after}" } }
  - name: queue
    match: { path: /queue }
    limits: [ { name: q, algorithm: leaky_bucket, limit: 2, per: 1s, burst: 3, mode: queue } ]
  - name: order
    match: { path: "/api/**" }
    limits:
      - { name: global, algorithm: token_bucket, limit: 1000, per: 1s, burst: 10000 }
      - { name: api, key: "{path}", algorithm: token_bucket, limit: 100, per: 1s, burst: 1000 }
      - { name: user, key: "{header.x-user-id|ip}", algorithm: token_bucket, limit: 1, per: 1s, burst: 3 }
  - name: near
    match: { path: /near }
    limits: [ { name: all, algorithm: fixed_window, limit: 5, per: 60s, warn: 80% } ]
  - name: cheaper
    match: { path: /cheaper }
    limits: [ { name: all, algorithm: fixed_window, limit: 4, per: 60s } ]
    degrade: { at: 50%, headers: { x-model: "small \"1\"" } }
  - name: models
    match: { path: /chat }
    limits:
      - { name: requests, algorithm: fixed_window, limit: 10, per: 60s, cost: 1 }
      - { name: tokens, algorithm: fixed_window, limit: 1000, per: 60s, cost: "{body.max_tokens|500}" }
  - name: skips
    match: { path: /skips }
    continue: true
    limits: [ { name: a, key: "{header.x-a}", algorithm: gcra, limit: 1, per: 60s } ]
  - name: skips-too
    match: { path: /skips }
    limits: [ { name: b, key: "{header.x-b}", algorithm: gcra, limit: 1, per: 60s } ]
  - name: login
    match: { path: /login }
    limits:
      - { name: failures, key: "{ip}", algorithm: fixed_window, limit: 4, per: 1h,
          count: { on: [401, 5xx], header.x-cost: add } }
)";

constexpr std::string_view kOrder =
    R"({"attributes":{"path":"/api/order","header.X-User-Id":"u1","ip":"203.0.113.9"}})";

class CheckEndpointTest : public ::testing::Test {
 protected:
  const http::Response& ask(std::string_view body, CheckKind kind = CheckKind::kCheck) {
    http::Request request;
    request.method = "POST";
    request.target = kind == CheckKind::kCheck ? "/v1/check" : "/v1/other";
    request.body = body;
    response_.clear();
    endpoint_->handle(kind, request, may_operate_, response_);
    if (checks_members_ && response_.content_type == "application/json") {
      EXPECT_EQ(find_undocumented(response_.body), "") << response_.body;
    }
    return response_;
  }
  const http::Response& settle(std::string_view body) { return ask(body, CheckKind::kSettle); }
  // Adds `count` rules, which all apply to "/many".
  void add_rules(int count) {
    std::string yaml(kRules);
    for (int i = 0; i < count; ++i) {
      yaml += "  - { name: m" + std::to_string(i) +
              ", match: { path: /many }, continue: true, limits: [ { algorithm: gcra, limit: 1, "
              "per: 1s } ] }\n";
    }
    ASSERT_TRUE(manager_->replace(yaml, "test"));
  }
  // Replaces the rules by one that no request here matches, with that many expressions.
  void use_expressions(int count) {
    std::string yaml = "version: 1\nrules:\n  - { name: a, match: { path: ['~/b'";
    for (int i = 1; i < count; ++i) yaml += ", '~/b'";
    ASSERT_TRUE(manager_->replace(yaml + "] }, action: deny }\n", "test"));
  }
  bool has_line(std::string_view line) const {
    return response_.fields.find(std::string(line) + "\r\n") != std::string::npos;
  }

  testing::ManualClock clock_;

  bool may_operate_ = true;
  bool checks_members_ = true;  // that the reference has them
  http::Response response_;

 private:
  TestFolder folder_;
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
  std::unique_ptr<RulesManager> manager_ =
      RulesManager::open({folder_.write("rules.yaml", kRules)}, clock_).value();
  metrics::Registry registry_;
  Log log_{{.level = LogLevel::kOff}};
  DenialLog denials_{log_, clock_};
  Session session_{{limiter_, *manager_, registry_.make_recorder(), denials_}};
  std::unique_ptr<CheckEndpoint> endpoint_ = std::make_unique<CheckEndpoint>(session_);
};

TEST_F(CheckEndpointTest, AnswersInJsonWithTheFieldsOfEveryFrontEnd) {
  const auto& response = ask(kOrder);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.body,
            "{\"outcome\":\"allowed\",\"rule\":\"order\",\"reason\":\"ok\",\"limits\":["
            "{\"name\":\"global\",\"limit\":10000,\"remaining\":9999,\"reset_after_ms\":1},"
            "{\"name\":\"api\",\"limit\":1000,\"remaining\":999,\"reset_after_ms\":10},"
            "{\"name\":\"user\",\"limit\":3,\"remaining\":2,\"reset_after_ms\":1000}]}");
  EXPECT_TRUE(has_line("RateLimit: \"user\";r=2;t=1, \"api\";r=999;t=1, \"global\";r=9999;t=1"))
      << response.fields;
  EXPECT_TRUE(has_line("X-RateLimit-Remaining: 2")) << response.fields;
}

TEST_F(CheckEndpointTest, DeniesInTheSameShapeWithTheRulesStatusAndNotItsBody) {
  const std::string_view body = R"({"attributes":{"path":"/send/code","body":{"email":"a@b"}}})";
  EXPECT_EQ(ask(body).status, 200);
  clock_.advance(1us);
  EXPECT_EQ(ask(body).status, 503);
  EXPECT_EQ(ask(body).body,
            "{\"outcome\":\"denied\",\"rule\":\"code\",\"reason\":\"limited\","
            "\"retry_after_ms\":60000,\"limits\":[{\"name\":\"email\",\"limit\":1,\"remaining\":0,"
            "\"reset_after_ms\":60000,\"retry_after_ms\":60000}]}");
  EXPECT_EQ(ask(body).content_type, "application/json");
  EXPECT_TRUE(has_line("Retry-After: 60"));
  EXPECT_TRUE(has_line("X-Wait: 60"));
  EXPECT_EQ(ask("[" + std::string(body) + "]").fields, "")
      << "requests of an array share a response";
}

TEST_F(CheckEndpointTest, SaysWhetherALimitWithWarnIsNear) {
  const auto after = [&](int cost) {
    return ask(R"({"attributes":{"path":"/near"},"cost":)" + std::to_string(cost) + "}").body;
  };
  EXPECT_NE(after(3).find("\"reset_after_ms\":60000,\"near\":false}"), std::string_view::npos);
  EXPECT_NE(after(1).find("\"reset_after_ms\":60000,\"near\":true}"), std::string_view::npos);
  EXPECT_NE(after(2).find("\"retry_after_ms\":60000,\"near\":true}"), std::string_view::npos);
  EXPECT_EQ(ask(kOrder).body.find("near"), std::string_view::npos);
}

TEST_F(CheckEndpointTest, SaysThatARuleIsDegradedAndItsHeaders) {
  const auto after = [&](int cost) {
    return ask(R"({"attributes":{"path":"/cheaper"},"cost":)" + std::to_string(cost) + "}").body;
  };
  const auto has_line = [&] {
    return response_.fields.find("x-model: small \"1\"\r\n") != std::string::npos;
  };
  EXPECT_EQ(after(1).find("degraded"), std::string_view::npos);
  EXPECT_FALSE(has_line());
  EXPECT_NE(after(1).find(
                R"("reason":"ok","degraded":true,"headers":{"x-model":"small \"1\""},"limits":)"),
            std::string_view::npos);
  EXPECT_TRUE(has_line());
  EXPECT_EQ(after(3).find("degraded"), std::string_view::npos) << "a request that is denied";
  EXPECT_FALSE(has_line());
}

TEST_F(CheckEndpointTest, NamesTheLimitsThatWereSkipped) {
  EXPECT_EQ(ask(R"({"attributes":{"path":"/skips"}})").body,
            R"({"outcome":"allowed","rule":"skips","reason":"ok","limits":[],)"
            R"("skipped":["a","skips-too/b"]})");
  EXPECT_EQ(ask(R"({"attributes":{"path":"/skips","header.x-a":"1"}})").body,
            R"({"outcome":"allowed","rule":"skips","reason":"ok","limits":[{"name":"a","limit":1,)"
            R"("remaining":0,"reset_after_ms":60000}],"skipped":["skips-too/b"]})");
  EXPECT_EQ(ask(R"({"attributes":{"path":"/skips","header.x-a":"2","header.x-b":"1"}})")
                .body.find("skipped"),
            std::string_view::npos);
}

TEST_F(CheckEndpointTest, AnswersWithoutARuleIfNoneMatches) {
  EXPECT_EQ(ask(R"({"attributes":{}})").body,
            "{\"outcome\":\"allowed\",\"rule\":null,\"reason\":\"ok\",\"limits\":[]}");
  EXPECT_EQ(ask(R"({"attributes":{}})").status, 200);
  EXPECT_EQ(ask(R"({"attributes":{}})").fields, "");
}

TEST_F(CheckEndpointTest, DecidesByALimitInTheRequest) {
  const std::string_view body =
      R"({"limit":{"key":"alice","algorithm":"gcra","limit":1,"per":"1s","burst":2},"cost":2})";
  ask(body);
  EXPECT_EQ(response_.status, 200);
  EXPECT_EQ(response_.text, R"({"outcome":"allowed","rule":null,"reason":"ok","limits":[)"
                            R"({"name":"gcra","limit":3,"remaining":1,"reset_after_ms":2000}]})");
  EXPECT_NE(response_.fields.find("RateLimit-Policy: \"gcra\";q=3;w=3\r\n"), std::string::npos);
  ask(body);
  EXPECT_EQ(response_.status, 429);
  EXPECT_NE(response_.fields.find("Retry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(response_.text.find(R"("retry_after_ms":1000)"), std::string::npos);
  const std::string_view permit =
      R"({"limit":{"key":"job","algorithm":"concurrency","limit":1,"per":"30s"}})";
  EXPECT_NE(ask(permit).text.find(R"(,"permit":")"), std::string::npos);
  EXPECT_EQ(ask(permit).status, 429);
  may_operate_ = false;
  EXPECT_EQ(ask(permit).status, 403);
}

TEST_F(CheckEndpointTest, SaysWhatIsWrongWithALimitInTheRequest) {
  const auto detail = [&](std::string_view body) {
    const http::Response& response = ask(body);
    return response.status == 400 ? response.text : "";
  };
  const auto has = [&](std::string_view body, std::string_view text) {
    const std::string found = detail(body);
    EXPECT_NE(found.find(text), std::string::npos) << found;
  };
  has(R"({"limit":{"algorithm":"gcra","limit":1,"per":"1s"}})", "at limit: lacks 'key'; expected");
  has(R"({"limit":{"key":"a","key":"b"}})", "at limit: 'key' is given twice; expected it once");
  has(R"({"limit":{"key":"a","burst":1,"burst":1}})",
      "at limit: 'burst' is given twice; expected it once");
  has(R"({"limit":{"key":"a","cost":1}})", "at limit: unknown member 'cost'; expected one of: key");
  has(R"({"limit":{"key":"a","limit":true}})", "at limit: 'limit' is true; expected text");
  has(R"({"limit":{"key":"a","algorithm":"gcra","limit":1,"per":"1x"}})", "at limit: period: ");
  has(R"({"limit":{"key":"a","algorithm":"gcra","limit":1,"per":"1s"},"attributes":{}})",
      "at attributes: next to 'limit'; expected one of them");
  has(R"([{"limit":{"key":"a","algorithm":"gcra","limit":1,"per":"1s"}}])",
      "at [0].limit: only a single request has one; expected 'attributes'");
  has(R"({"limit":7})", "at limit: found a number; expected an object of a key");
}

TEST_F(CheckEndpointTest, ReportsAMissingAttribute) {
  const auto& response = ask(R"({"attributes":{"path":"/send/code","body":{"email":null}}})");
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.body.find("\"reason\":\"missing\""), std::string_view::npos);
}

TEST_F(CheckEndpointTest, FollowsTheVerb) {
  const auto with = [](std::string_view more) {
    return std::string(kOrder.substr(0, kOrder.size() - 1)).append(",").append(more) + "}";
  };
  const auto remaining = [&](const std::string& body) {
    const std::string text(ask(body).body);
    return text.substr(text.rfind("\"remaining\":") + 12, 1);
  };
  EXPECT_EQ(remaining(with("\"cost\":2")), "1");
  EXPECT_EQ(remaining(with("\"verb\":\"peek\"")), "0");
  EXPECT_EQ(remaining(with("\"cost\":0")), "1");
  EXPECT_EQ(remaining(with("\"verb\":\"refund\"")), "2");
  EXPECT_EQ(remaining(with("\"verb\":\"reset\"")), "3");
  EXPECT_EQ(ask(with("\"cost\":4")).status, 429);
  EXPECT_NE(ask(with("\"cost\":4")).body.find("\"reason\":\"never\""), std::string_view::npos);
}

TEST_F(CheckEndpointTest, ChargesTakesAtMostAndReserves) {
  const auto with = [&](std::string_view more) {
    const std::string body =
        std::string(kOrder.substr(0, kOrder.size() - 1)).append(",").append(more) + "}";
    return json::parse(ask(body).body);
  };
  const json::value taken = with(R"("verb":"take_at_most","cost":9)");
  EXPECT_EQ(taken.at("taken").as_int64(), 3);
  EXPECT_EQ(with(R"("verb":"take_at_most","cost":9)").at("outcome").as_string(), "denied");
  EXPECT_EQ(with(R"("verb":"charge","cost":1)").at("reason").as_string(), "over");
  with(R"("verb":"reset")");
  EXPECT_EQ(with(R"("verb":"reserve","max_wait_ms":9)").at("delay_ms").as_int64(), 0);
}

TEST_F(CheckEndpointTest, SettlesToTheActualCosts) {
  const auto left = [&](const json::value& answer) {
    const json::array& limits = answer.at("limits").as_array();
    return std::pair(limits.at(0).at("remaining").as_int64(),
                     limits.at(1).at("remaining").as_int64());
  };
  using Left = std::pair<std::int64_t, std::int64_t>;
  const std::string call = R"({"attributes":{"path":"/chat"},"costs":{"tokens":700})";
  EXPECT_EQ(left(json::parse(ask(call + "}").body)), (Left{9, 300}));
  EXPECT_EQ(left(json::parse(settle(call + R"(,"actual":{"tokens":200}})").body)), (Left{9, 800}));
  const json::value over = json::parse(settle(call + R"(,"actual":{"tokens":1501}})").body);
  EXPECT_EQ(over.at("reason").as_string(), "over");
  EXPECT_EQ(left(over), (Left{9, 0}));
  EXPECT_EQ(settle(call + "}").status, 400);
}

TEST_F(CheckEndpointTest, CountsResponses) {
  const std::string request = R"({"attributes":{"path":"/login","ip":"203.0.113.9")";
  const auto report = [&](std::string_view members) -> const http::Response& {
    return ask(std::string(members) + "}", CheckKind::kReport);
  };
  const auto left = [&] {
    return json::parse(ask(request + "}}").body).at("limits").at(0).at("remaining").as_int64();
  };
  EXPECT_EQ(report(request + R"(},"status":401)").status, 200);
  EXPECT_EQ(left(), 3);
  report(request + R"(},"status":"503")");
  EXPECT_EQ(left(), 2) << "a text is a status, too";
  report(request + R"(},"status":200,"response":{"header.X-Cost":"1"})");
  EXPECT_EQ(left(), 1);
  report(request + R"(,"header.x-cost":"7"},"status":200,"response":{})");
  EXPECT_EQ(left(), 1) << "a request does not say what its response costs";
  const json::value over =
      json::parse(report(request + R"(,"header.x-cost":"7","status":"200"})").body);
  EXPECT_EQ(over.at("reason").as_string(), "over") << "all attributes in one object";
  EXPECT_EQ(ask(request + "}}").status, 429);

  EXPECT_EQ(report(request + "}").status, 400);
  const json::value none = json::parse(report(request + R"(},"status":"none")").body);
  EXPECT_EQ(none.at("detail").as_string(),
            "the status of the response is 'none'; expected a number from 100 to 599");
}

TEST_F(CheckEndpointTest, SaysTheDelayOfAQueue) {
  ask(R"({"attributes":{"path":"/queue"}})");
  EXPECT_NE(ask(R"({"attributes":{"path":"/queue"}})").body.find("\"delay_ms\":500,"),
            std::string_view::npos);
}

TEST_F(CheckEndpointTest, DecidesEachOfAnArrayOnItsOwn) {
  const std::string one(kOrder);
  const auto& response = ask("[" + one + "," + one + "," + one + "," + one + "]");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.fields, "");
  const json::array answers = json::parse({response.body.data(), response.body.size()}).as_array();
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[2].at("outcome").as_string(), "allowed");
  EXPECT_EQ(answers[3].at("outcome").as_string(), "denied");
  EXPECT_EQ(answers[3].at("retry_after_ms").as_int64(), 1000);
  EXPECT_EQ(ask("[]").body, "[]");
}

TEST_F(CheckEndpointTest, AnswersAThousandAtOnce) {
  std::string body = "[";
  for (int i = 0; i < 1000; ++i) body.append(kOrder) += i < 999 ? ',' : ']';
  const auto& response = ask(body);
  EXPECT_EQ(json::parse({response.body.data(), response.body.size()}).as_array().size(), 1000u);
}

// Makes an array of requests with this path.
std::string array_of(int count, std::string_view path) {
  std::string body = "[";
  for (int i = 0; i < count; ++i) {
    body.append(i == 0 ? "" : ",").append(R"({"attributes":{"path":")").append(path) += "\"}}";
  }
  return body + "]";
}

TEST_F(CheckEndpointTest, BoundsWhatExpressionsReadForAnArray) {
  use_expressions(1001);
  const auto reasons = [&](int count, std::string_view path) {
    std::vector<std::string> out;
    const json::value answers = json::parse(ask(array_of(count, path)).body);
    for (const json::value& answer : answers.as_array()) {
      out.emplace_back(answer.at("reason").as_string());
    }
    return out;
  };
  // A request counts (100 + 64) bytes for each of 1,001 expressions; 64 MiB suffice for 408.
  const std::string path = "/" + std::string(99, 'x');
  const std::vector<std::string> said = reasons(1000, path);
  EXPECT_EQ(std::count(said.begin(), said.begin() + 408, "ok"), 408);
  EXPECT_EQ(std::count(said.begin() + 408, said.end(), "invalid"), 592);
  const json::value last = json::parse(response_.body).at(999);
  EXPECT_EQ(last.at("detail").as_string(),
            "the array is too much for the expressions up to the rule 'a'; expected that for all "
            "its requests they read at most 8388608 bytes of values of more than 8192 bytes, and "
            "at most 67108864 bytes of all values, where each expression counts 64 more for each "
            "value");
  EXPECT_EQ(reasons(408, path).back(), "ok") << "another array has a bound of its own";
  EXPECT_EQ(reasons(409, path).back(), "invalid");
  const std::string alone = R"({"attributes":{"path":")" + path + "\"}}";
  for (int i = 0; i < 409; ++i) {
    ASSERT_EQ(json::parse(ask(alone).body).at("reason").as_string(), "ok");
  }
}

TEST_F(CheckEndpointTest, BoundsWhatExpressionsReadOfLongValuesForAnArray) {
  use_expressions(10);
  // 83 times 10 expressions read 10,000 bytes: 8.3 MB of 8 MiB.
  const std::string body = array_of(84, "/" + std::string(9'999, 'x'));
  const json::value answers = json::parse(ask(body).body);
  EXPECT_EQ(answers.at(82).at("reason").as_string(), "ok");
  EXPECT_EQ(answers.at(83).at("reason").as_string(), "invalid");
}

TEST_F(CheckEndpointTest, DecidesNothingOfAnArrayWithAnError) {
  const std::string one(kOrder);
  const auto& response = ask("[" + one + ",{}]");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/problem+json");
  EXPECT_EQ(response.body,
            "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"detail\":\"at "
            "[1].attributes: missing; expected an object whose members are texts\"}");
  EXPECT_NE(ask(kOrder).body.find("\"remaining\":2"), std::string_view::npos);
}

TEST_F(CheckEndpointTest, RefusesARequestThatTooManyLimitsApplyTo) {
  add_rules(65);
  const std::string_view body = R"({"attributes":{"path":"/many"}})";
  EXPECT_EQ(ask(body).status, 400);
  EXPECT_EQ(ask(body).content_type, "application/problem+json");
  EXPECT_EQ(ask(body).body.find("{\"type\":\"about:blank\""), 0u);
  const std::string answer(ask("[" + std::string(body) + "]").body);
  EXPECT_EQ(answer.find("[{\"outcome\":\"denied\",\"rule\":\"m0\",\"reason\":\"invalid\""), 0u);
}

TEST_F(CheckEndpointTest, AllocatesNothingOnceItsBuffersHaveGrown) {
  const std::string_view body =
      R"({"attributes":{"path":"/api/\u006frder","header.X-User-Id":"u1","body":{"a":{"b":1}}}})";
  checks_members_ = false;
  for (int i = 0; i < 5; ++i) ask(body);
  EXPECT_EQ(testing::count_allocations([&] { ask(body); }), 0u);
}

TEST_F(CheckEndpointTest, RefusesWhatMakesRoomOrTakesSeveralUnitsToAClientThatMayOnlyCheck) {
  may_operate_ = false;
  EXPECT_EQ(ask(kOrder).status, 200);
  const std::string attributes(kOrder.substr(1, kOrder.size() - 2));
  const auto with = [&](std::string_view more) {
    return ask("{" + attributes + "," + std::string(more) + "}").status;
  };
  EXPECT_EQ(with(R"("cost":0)"), 200);
  EXPECT_EQ(with(R"("verb":"peek","cost":2)"), 200);
  for (const char* more :
       {R"("verb":"refund")", R"("verb":"reset")", R"("cost":2)", R"("verb":"refund","cost":0)"}) {
    EXPECT_EQ(with(more), 403) << more;
    EXPECT_EQ(response_.content_type, "application/problem+json");
    EXPECT_NE(response_.body.find("the role operate is required"), response_.body.npos);
  }
  const std::string array = "[" + std::string(kOrder) + R"(,{"attributes":{},"cost":2}])";
  EXPECT_EQ(ask(array).status, 403);
  EXPECT_NE(response_.body.find("at [1].cost: several units"), response_.body.npos)
      << response_.body;
  may_operate_ = true;
  EXPECT_EQ(with(R"("verb":"peek")"), 200);
  EXPECT_NE(response_.body.find(R"("name":"user","limit":3,"remaining":1)"), response_.body.npos)
      << "only the first request was counted: " << response_.body;
}

TEST_F(CheckEndpointTest, ChargesEachLimitItsOwnCost) {
  const auto left = [&](const std::string& more) {
    const json::value answer =
        json::parse(ask("{\"attributes\":{\"path\":\"/chat\"" + more + "}").body);
    const json::array& limits = answer.at("limits").as_array();
    return std::pair(limits.at(0).at("remaining").as_int64(),
                     limits.at(1).at("remaining").as_int64());
  };
  using Left = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(left(R"(,"body":{"max_tokens":200}})"), (Left{9, 800}));
  EXPECT_EQ(left(R"(},"cost":7)"), (Left{8, 300})) << "no limit takes the number of the request";
  EXPECT_EQ(left(R"(},"costs":{"tokens":299})"), (Left{7, 1}));
  EXPECT_EQ(left(R"(},"costs":{"tokens":2})"), (Left{7, 1})) << "denied: no limit is charged";
  EXPECT_EQ(left(R"(},"costs":{"tokens":99,"requests":0},"verb":"refund")"), (Left{7, 100}));
}

TEST_F(CheckEndpointTest, SaysWhatIsWrongWithACost) {
  const http::Response& response = ask(R"({"attributes":{"path":"/chat"},"costs":{"token":1}})");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/problem+json");
  EXPECT_EQ(json::parse(response.body).at("detail").as_string(),
            "the rules that apply have no limit 'token'; expected the name of a limit: requests or "
            "tokens");
  ask(R"({"attributes":{"path":"/chat","body.max_tokens":"ma\u0000ny"}})");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(json::parse(response.body).at("detail").as_string(),
            "the cost of the limit 'tokens', 'body.max_tokens', is 'ma\\x00ny'; expected a whole "
            "number from 0 to 4294967295");
  EXPECT_EQ(ask(R"({"attributes":{"path":"/none"},"costs":{"token":1}})").status, 200);
}

TEST_F(CheckEndpointTest, SaysInAnArrayWhatIsWrongWithACost) {
  const http::Response& response = ask(
      R"([{"attributes":{"path":"/chat"},"costs":{"token":1}},{"attributes":{"path":"/chat"}}])");
  EXPECT_EQ(response.status, 200);
  const json::value answers = json::parse(response.body);
  EXPECT_EQ(answers.at(0).at("reason").as_string(), "invalid");
  EXPECT_TRUE(answers.at(0).at("detail").as_string().starts_with("the rules that apply have no"));
  EXPECT_EQ(answers.at(1).at("outcome").as_string(), "allowed");
  EXPECT_FALSE(answers.at(1).as_object().contains("detail"));
}

}  // namespace
}  // namespace sluice::server
