#include "server/api/envoy/rls_service.h"

#include <gtest/gtest.h>

#include "server/api/envoy/test_service.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

constexpr std::string_view kEnvoy =
    "domain: d\ndescriptors: [ { key: a, rate_limit: { unit: minute, requests_per_unit: 1 } } ]\n";

class JsonEndpointTest : public ServiceTest {
 protected:
  const http::Response& post(std::string_view body) {
    response_.clear();
    http::Request request;
    request.method = "POST";
    request.body = body;
    answer_json(*service_, request, may_operate_, response_);
    return response_;
  }

  bool may_operate_ = true;
  http::Response response_;
};

TEST_F(JsonEndpointTest, AnswersLikeTheService) {
  open(kEnvoy);
  constexpr std::string_view kAsk =
      R"({"domain":"d","descriptors":[{"entries":[{"key":"a","value":"x"}]}]})";
  EXPECT_EQ(post(kAsk).status, 200);
  EXPECT_EQ(response_.content_type, "application/json");
  EXPECT_EQ(response_.body,
            R"({"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":1,)"
            R"("unit":"MINUTE"},"durationUntilReset":"30s"}]})");
  EXPECT_EQ(post(kAsk).status, 429);
  EXPECT_EQ(response_.body,
            R"({"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":)"
            R"({"requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"30s"}]})");
}

TEST_F(JsonEndpointTest, ReadsNamesOfFieldsInEitherSpelling) {
  open(kEnvoy);
  EXPECT_EQ(
      post(R"({"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"a"}]}]})").status,
      429);
  EXPECT_EQ(
      post(R"({"domain":"d","hits_addend":2,"descriptors":[{"entries":[{"key":"a"}]}]})").status,
      429);
  EXPECT_EQ(
      post(R"({"domain":"d","descriptors":[{"entries":[{"key":"a"}],"hitsAddend":"0"}]})").status,
      200);
}

TEST_F(JsonEndpointTest, RefusesBodiesThatAreNotARequest) {
  open(kEnvoy);
  for (const std::string_view body :
       {"", "x", "[]", "{", R"({"domain":1,"x":2})", R"({"domain":"d"})", R"({"descriptors":[{}]})",
        R"({"domain":"d","descriptors":[{"entries":[{"key":""}]}]})", "{\"domain\":\"\xff\"}"}) {
    EXPECT_EQ(post(body).status, 400) << body;
    EXPECT_EQ(response_.content_type, kProblemType) << body;
    EXPECT_NE(response_.refusal, "") << body;  // so that it is counted and logged
  }
}

TEST_F(JsonEndpointTest, DoesNotRefuseWhatItHasDecided) {
  open(kEnvoy,
       "version: 1\ndomain: n\nrules: [ { name: r, limits: [ { algorithm: gcra, limit: 1, "
       "per: 1m, cost: '{n}' } ] } ]\n");
  constexpr std::string_view kAsk =
      R"({"domain":"n","descriptors":[{"entries":[{"key":"n","value":"many"}]}]})";
  EXPECT_EQ(post(kAsk).status, 400);
  EXPECT_EQ(response_.refusal, "") << "sluice_requests_total has it, as invalid";
}

TEST_F(JsonEndpointTest, RefusesMalformedJson) {
  open(kEnvoy);
  for (const std::string_view body :
       {R"({'domain':'d','descriptors':[{'entries':[{'key':'a'}]}]})",
        R"({"domain":"d","descriptors":[{"entries":[{"key":"a"}]}]}{})",
        R"({"domain":"d","descriptors":[{"entries":[{"key":"a"},]}]})",
        R"({domain:"d","descriptors":[{"entries":[{"key":"a"}]}]})",
        R"({"domain":"d","descriptors":[{"entries":[{"key":"\x61"}]}]})",
        R"({"domain":"d","descriptors":[{"entries":[{"key":"a","value":"\ud800"}]}]})"}) {
    EXPECT_EQ(post(body).status, 400) << body;
    EXPECT_NE(response_.text.find("not valid JSON in UTF-8"), std::string::npos) << body;
  }
}

TEST_F(JsonEndpointTest, RefusesARepeatedMember) {
  open(kEnvoy);
  EXPECT_EQ(post(R"({"domain":"x","domain":"d","descriptors":[{"entries":[{"key":"a"}]}]})").status,
            400);
  EXPECT_NE(response_.text.find("'domain' is repeated"), std::string::npos);
}

TEST_F(JsonEndpointTest, ReportsTheMemberThatIsWrong) {
  open(kEnvoy);
  const std::pair<std::string_view, std::string_view> wrong[] = {
      {R"({"domain":"d","hitsAddend":-1})", "hits_addend"},
      {R"({"domain":"d","descriptors":[{"entries":[{"key":"a","value":7}]}]})",
       "descriptors[0].entries[0].value"},
      {R"({"domain":"d","what":1})", "what"},
  };
  for (const auto& [body, place] : wrong) {
    EXPECT_EQ(post(body).status, 400) << body;
    EXPECT_NE(response_.text.find(place), std::string::npos) << response_.text;
  }
}

// Any client could otherwise fill the log.
TEST_F(JsonEndpointTest, WritesNothingOfABadBodyToStandardError) {
  open(kEnvoy);
  ::testing::internal::CaptureStderr();
  for (const std::string_view body :
       {"\xff", "{\"domain\":\"\xff\"}", R"({"domain":"\ud800","descriptors":[{}]})",
        R"({"domain":"d","descriptors":[{"entries":[{"key":"\udc00\ud800"}]}]})", "[[[[[[[["}) {
    EXPECT_EQ(post(body).status, 400) << body;
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(JsonEndpointTest, RefusesTooDeepNesting) {
  open(kEnvoy);
  std::string body(100000, '[');
  EXPECT_EQ(post("{\"descriptors\":" + body).status, 400);
}

TEST_F(JsonEndpointTest, ReportsThatTheStoreCannotDecide) {
  open(kEnvoy);
  store_.fails = true;
  EXPECT_EQ(post(R"({"domain":"d","descriptors":[{"entries":[{"key":"a"}]}]})").status, 503);
}

TEST_F(JsonEndpointTest, RefusesHitsThatGiveBackToAClientThatMayOnlyCheck) {
  open(kEnvoy);
  may_operate_ = false;
  const auto with = [&](std::string_view more) {
    return post(R"({"domain":"d","descriptors":[{"entries":[{"key":"a","value":"x"}])" +
                std::string(more))
        .status;
  };
  EXPECT_EQ(with("}]}"), 200);
  EXPECT_EQ(with("}]}"), 429);
  EXPECT_EQ(with(R"(,"isNegativeHits":true}]})"), 403);
  EXPECT_EQ(response_.content_type, kProblemType);
  EXPECT_EQ(with(R"(,"hitsAddend":"2"}]})"), 403);
  EXPECT_EQ(with(R"(}],"hitsAddend":2})"), 403);
  EXPECT_EQ(with("}]}"), 429) << "nothing was given back";
}

}  // namespace
}  // namespace sluice::server
