#include "server/api/auth/auth_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server::auth_endpoint_test {
namespace {

using Fields = std::vector<http::Field>;

constexpr std::string_view kRules = R"(
version: 1
rules:
  - name: code
    match: { method: POST, path: /send/code }
    limits: [ { name: code, key: "{query.phone}", algorithm: fixed_window, limit: 1, per: 60s } ]
    reject: { status: 430, body: '{"message":"请求过于频繁"}' }
  - name: bare
    match: { path: "/bare/**" }
    headers: none
    limits: [ { name: all, key: "{path}", algorithm: fixed_window, limit: 1, per: 60s } ]
  - name: banned
    match: { path: /banned }
    limits: [ { name: none, algorithm: gcra, limit: 0, per: 1s } ]
  - name: wait
    match: { path: /wait }
    limits: [ { name: all, algorithm: fixed_window, limit: 2, per: 60s, align: clock } ]
    reject:
      body: '{"wait":{retry_after},"limit":{limit},"left":{remaining}}'
      headers: { X-Reason: limited, X-Wait: "{retry_after} s" }
  - name: scanners
    match: { path: /scan }
    action: deny
    reject: { body: "wait {retry_after}", headers: { X-Reason: banned, X-Wait: "{retry_after} s" } }
  - name: hidden
    match: { path: /hidden }
    action: deny
    reject: { status: 404 }
  - name: mail
    match: { path: /mail }
    headers: none
    limits: [ { name: pace, algorithm: leaky_bucket, limit: 3, per: 1s, burst: 3, mode: queue } ]
  - name: order
    match: { path: "/api/order/**" }
    limits:
      - { name: user, key: "{header.x-user|ip}", algorithm: token_bucket, limit: 2, per: 4s }
  - name: cost
    match: { path: /cost }
    limits:
      - { name: plain, algorithm: fixed_window, limit: 90, per: 60s }
      - { name: sized, algorithm: fixed_window, limit: 90, per: 60s, cost: request }
  - name: read
    match: { path: /read }
    limits: [ { name: units, algorithm: fixed_window, limit: 100, per: 60s, cost: "{query.units}" } ]
  - name: login
    match: { path: /login }
    limits:
      - { key: "{ip}", algorithm: fixed_window, limit: 3, per: 60s,
          count: { on: 401, header.x-cost: add } }
)";

class AuthEndpointTest : public ::testing::Test {
 protected:
  const http::Response& ask(Fields fields, std::string_view target = "/v1/auth") {
    http::Request request;
    request.method = "GET";
    request.target = target;
    request.fields = fields;
    request.peer = peer_;
    response_.clear();
    endpoint_->handle(request, response_);
    return response_;
  }
  // Reports a response of the login.
  const http::Response& report(std::string_view target, Fields more = {}) {
    more.push_back({"X-Original-URI", "/login"});
    http::Request request;
    request.method = "POST";
    request.target = target;
    request.fields = more;
    request.peer = peer_;
    response_.clear();
    endpoint_->report(request, response_);
    return response_;
  }
  const http::Response& ask_for(std::string_view uri, std::string_view target = "/v1/auth",
                                std::string_view method = "GET") {
    return ask({{"X-Original-URI", uri}, {"X-Original-Method", method}}, target);
  }
  bool has_line(std::string_view line) const {
    return response_.fields.find(std::string(line) + "\r\n") != std::string::npos;
  }

  testing::ManualClock clock_;
  std::string peer_ = "192.0.2.1";

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
  const TrustedProxies trusted_ =
      TrustedProxies::parse(std::vector<std::string>{"10.0.0.0/8"}).value();
  std::unique_ptr<AuthEndpoint> endpoint_ =
      std::make_unique<AuthEndpoint>(session_, trusted_, log_);
  http::Response response_;
};

TEST_F(AuthEndpointTest, CountsResponsesThatAGatewayReports) {
  const auto remaining = [&] {
    const std::string& fields = ask_for("/login").fields;
    return fields.substr(fields.find("X-RateLimit-Remaining: ") + 23, 1);
  };
  EXPECT_EQ(report("/v1/report?status=200").status, 200);
  EXPECT_EQ(remaining(), "3");
  report("/v1/report?status=401", {{"x-cost", "2"}});
  EXPECT_EQ(remaining(), "2") << "X-Cost may be the client's";
  report("/v1/report?status=200", {{"X-Sluice-Response-X-Cost", "2"}});
  EXPECT_EQ(remaining(), "0");
  EXPECT_EQ(ask_for("/login").status, 429);
  EXPECT_EQ(report("/v1/report?status=401").status, 200) << "beyond the limit";
  EXPECT_EQ(report("/v1/report?status=").status, 400);
  EXPECT_EQ(report("/v1/report?status=401&a=b").status, 400);
  EXPECT_EQ(report("/v1/report?code=401").status, 400);
  EXPECT_EQ(report("/v1/report?status=401", {{"X-Forwarded-Uri", "/free"}}).status, 400);
}

TEST_F(AuthEndpointTest, DeniesWithTheNumbersAndHeadersOfTheRule) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask_for("/wait").status, 200);
  EXPECT_FALSE(has_line("X-Reason: limited"));
  EXPECT_EQ(ask_for("/wait").body, R"({"wait":60,"limit":2,"left":0})");
  EXPECT_TRUE(has_line("X-Reason: limited"));
  EXPECT_TRUE(has_line("X-Wait: 60 s"));
  EXPECT_EQ(ask_for("/wait", "/v1/auth?deny=403").status, 403);
  EXPECT_FALSE(has_line("X-Sluice-Status: 403"));
  EXPECT_EQ(ask_for("/scan").body, "wait -");
  EXPECT_FALSE(has_line("X-Sluice-Status: 403"));
  EXPECT_EQ(ask_for("/scan", "/v1/auth?deny=403").status, 403);
  EXPECT_TRUE(has_line("X-Sluice-Status: 403")) << "no lack of quota";
  EXPECT_TRUE(has_line("X-Reason: banned"));
  EXPECT_FALSE(has_line("X-Wait: - s"));
  EXPECT_EQ(ask_for("/hidden").status, 404);
  EXPECT_EQ(ask_for("/hidden", "/v1/auth?deny=403").status, 403);
  EXPECT_TRUE(has_line("X-Sluice-Status: 403")) << "no lack of quota";
}

TEST_F(AuthEndpointTest, AllowsWithTheFieldsOfTheAnswerAndNoBody) {
  const auto& response = ask_for("/api/order/1");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "");
  EXPECT_TRUE(has_line("RateLimit: \"user\";r=1;t=2")) << response.fields;
  EXPECT_TRUE(has_line("X-RateLimit-Remaining: 1")) << response.fields;
  EXPECT_EQ(response.fields.find("Retry-After"), std::string::npos);
}

TEST_F(AuthEndpointTest, DeniesWithoutABodyIfTheRuleHasNone) {
  ask_for("/api/order/1");
  ask_for("/api/order/2");
  const auto& response = ask_for("/api/order/3");
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.body, "");
  EXPECT_EQ(response.content_type, "");
  EXPECT_TRUE(has_line("Retry-After: 2")) << response.fields;
  clock_.advance(std::chrono::seconds(2));
  EXPECT_EQ(ask_for("/api/order/3").status, 200);
}

TEST_F(AuthEndpointTest, DeniesWithTheStatusAndTheBodyOfTheRule) {
  ask_for("/send/code?phone=1", "/v1/auth", "POST");
  EXPECT_EQ(ask_for("/send/code?phone=2", "/v1/auth", "POST").status, 200);
  const auto& response = ask_for("/send/code?phone=1", "/v1/auth", "POST");
  EXPECT_EQ(response.status, 430);
  EXPECT_EQ(response.body, "{\"message\":\"请求过于频繁\"}");
  EXPECT_EQ(response.content_type, "application/json; charset=utf-8");
}

TEST_F(AuthEndpointTest, SaysHowLongARequestInAQueueWaits) {
  EXPECT_EQ(ask_for("/mail").fields, "") << "its turn is now";
  for (const char* delay : {"334", "667"}) {
    EXPECT_EQ(ask_for("/mail").status, 200);
    EXPECT_TRUE(has_line("X-Sluice-Delay: " + std::string(delay)));
  }
  const http::Response& full = ask_for("/mail");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.fields.find("X-Sluice-Delay"), full.fields.npos);
}

TEST_F(AuthEndpointTest, DeniesWith403IfTheGatewayAsksForIt) {
  EXPECT_EQ(ask_for("/send/code?phone=1", "/v1/auth?deny=403", "POST").status, 200);
  const auto& response = ask_for("/send/code?phone=1", "/v1/auth?deny=403", "POST");
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(response.body, "{\"message\":\"请求过于频繁\"}");
  EXPECT_TRUE(has_line("Retry-After: 60")) << response.fields;
}

TEST_F(AuthEndpointTest, WritesNoFieldsIfTheRuleWantsNone) {
  EXPECT_EQ(ask_for("/bare/1").fields, "");
}

TEST_F(AuthEndpointTest, WritesNoWaitIfWaitingNeverHelps) {
  EXPECT_EQ(ask_for("/banned").status, 429);
  EXPECT_EQ(ask_for("/banned").fields.find("Retry-After"), std::string::npos);
}

TEST_F(AuthEndpointTest, AllowsRequestsThatNoRuleMatches) {
  const auto& response = ask_for("/");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.fields, "");
}

TEST_F(AuthEndpointTest, AnotherSpellingOfThePathDoesNotEvadeTheRule) {
  ask_for("/banned");
  for (const char* path : {"//banned", "/%62anned", "/x/../banned", "/x/%2e%2e/banned?a=b",
                           "http://host/banned", "/.//banned#x", "%2Fbanned"}) {
    EXPECT_EQ(ask_for(path).status, 429) << path;
  }
}

TEST_F(AuthEndpointTest, RefusesRequestsWithoutADescription) {
  const auto& response = ask({{"Host", "sluice"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/problem+json");
  EXPECT_NE(response.body.find("X-Original-URI and X-Forwarded-Uri are both missing"),
            response.body.npos);
}

TEST_F(AuthEndpointTest, RefusesToChooseBetweenTwoDescriptions) {
  const auto& response = ask({{"X-Original-URI", "/"}, {"X-Forwarded-Uri", "/banned"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("clears the others"), response.body.npos);
}

class AuthCostTest : public AuthEndpointTest {
 protected:
  // Returns the remaining units of a limit without `cost`, and of one with `cost: request`.
  std::string left_after(std::string_view peer, std::string_view cost) {
    peer_ = peer;
    const http::Response& response = ask({{"X-Original-URI", "/cost"}, {"x-sluice-COST", cost}});
    if (response.status != 200) return std::to_string(response.status);
    const auto left = [&](std::string_view name) {
      const std::size_t at = response.fields.find("\"" + std::string(name) + "\";r=");
      return response.fields.substr(at + name.size() + 5, 2);
    };
    return left("plain") + ' ' + left("sized");
  }
};

TEST_F(AuthCostTest, OfATrustedProxyIsForLimitsThatAskForIt) {
  EXPECT_EQ(left_after("10.0.0.1", "20"), "89 70");
  EXPECT_EQ(left_after("10.0.0.1", "0"), "88 70");
  EXPECT_EQ(left_after("10.0.0.1", ""), "87 69") << "an empty field counts as absent";
  EXPECT_EQ(left_after("192.0.2.1", "20"), "86 68") << "this peer is not trusted";
  EXPECT_EQ(left_after("192.0.2.1", "x"), "85 67");
}

TEST_F(AuthCostTest, IsRefusedIfItIsNoNumberOfUnits) {
  const std::vector<std::string_view> values{"-1", "x",    "1.5",     "9007199254740992",
                                             " 1", "1, 2", {"1\0", 2}};
  for (const std::string_view wrong : values) {
    EXPECT_EQ(left_after("10.0.0.1", wrong), "400") << wrong;
  }
  const http::Response& response =
      ask({{"X-Original-URI", "/cost"}, {"X-Sluice-Cost", "1"}, {"X-Sluice-Cost", "0"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("X-Sluice-Cost is given twice"), response.body.npos);
}

TEST_F(AuthCostTest, FromAnAttributeIsExplainedIfItIsWrong) {
  for (const char* target : {"/v1/auth", "/v1/auth?deny=403"}) {
    const http::Response& response = ask_for("/read?units=many", target);
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(response.content_type, "application/problem+json");
    EXPECT_NE(response.body.find("\"status\":400,"), response.body.npos) << response.body;
    EXPECT_NE(response.body.find("'query.units', is 'many'"), response.body.npos) << response.body;
  }
  const http::Response& response = ask_for("/read?units=7");
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(has_line("RateLimit: \"units\";r=93;t=60")) << response.fields;
}

TEST_F(AuthEndpointTest, RefusesAnUnknownQuery) {
  for (const char* target : {"/v1/auth?deny=429", "/v1/auth?deny=403&x", "/v1/auth?deny",
                             "/v1/auth?Deny=403", "/v1/auth?cost=2"}) {
    const auto& response = ask_for("/", target);
    EXPECT_EQ(response.status, 400) << target;
    EXPECT_NE(response.body.find("expected none, or deny=403"), response.body.npos);
  }
  EXPECT_EQ(ask_for("/", "/v1/auth?").status, 200);
}

}  // namespace
}  // namespace sluice::server::auth_endpoint_test
