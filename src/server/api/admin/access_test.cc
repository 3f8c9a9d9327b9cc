#include "server/api/admin/admin_endpoint.h"

#include "server/api/admin/test_endpoint.h"

namespace sluice::server {
namespace {

class Access : public TestAdmin {
 protected:
  void SetUp() override { open({}); }
};

class AccessByToken : public Access {
 protected:
  int with(std::string_view name, std::string_view value) {
    return call("GET", "/v1/status", {{name, value}}).status;
  }
  void SetUp() override {
    token_ = *AdminToken::from({folder_.write("token", "s3cret-of-the-house\n"), ""});
    Access::SetUp();
  }
};

TEST_F(AccessByToken, NeedsTheToken) {
  EXPECT_EQ(with("Authorization", "Bearer s3cret-of-the-house"), 200);
  EXPECT_EQ(with("authorization", "bearer  s3cret-of-the-house "), 200);
  for (const char* wrong :
       {"", "Bearer", "Bearer ", "Bearer s3cret-of-the-hous", "Bearer s3cret-of-the-house1",
        "Basic s3cret-of-the-house", "s3cret-of-the-house", "Bearer S3cret-of-the-house"}) {
    EXPECT_EQ(with("Authorization", wrong), 401) << wrong;
  }
}

TEST_F(AccessByToken, NamesTheSchemeOfTheToken) {
  const Answered without = call("GET", "/v1/status");
  EXPECT_EQ(without.status, 401);
  EXPECT_TRUE(without.has("WWW-Authenticate", "Bearer realm=\"sluice\""));
  EXPECT_EQ(without.type, "application/problem+json");
  EXPECT_EQ(without.detail(),
            "a token is required; expected the header Authorization: Bearer TOKEN");
  const Answered wrong = call("GET", "/v1/status", {{"Authorization", "Bearer x"}});
  EXPECT_TRUE(wrong.has("WWW-Authenticate", "Bearer realm=\"sluice\""));
  EXPECT_EQ(wrong.detail(), "the token is not the one that is configured");
}

TEST_F(AccessByToken, IsRefusedForUnknownPathsToo) {
  EXPECT_EQ(call("GET", "/nothing").status, 401);
  EXPECT_EQ(call("PUT", "/v1/rules", {}, rules_named("r")).status, 401);
  EXPECT_EQ(manager_->version(), 1U);
}

TEST_F(AccessByToken, RefusesTwoTokens) {
  const Fields fields{{"Authorization", "Bearer s3cret-of-the-house"},
                      {"Authorization", "Bearer x"}};
  EXPECT_EQ(call("GET", "/v1/status", fields).status, 401);
}

TEST_F(Access, UnknownPathsGetAListOfThePaths) {
  const Answered answered = get("/v1/rule");
  EXPECT_EQ(answered.status, 404);
  EXPECT_NE(answered.detail().find("expected /v1/rules, "), std::string::npos);
  EXPECT_EQ(get("/v1/rules/").status, 404);
  EXPECT_EQ(call("OPTIONS", "*").status, 404);
}

TEST_F(Access, UnknownMethodsGetAListOfTheMethods) {
  const Answered answered = call("POST", "/v1/rules?x=y");
  EXPECT_EQ(answered.status, 405);
  EXPECT_TRUE(answered.has("Allow", "GET, HEAD, PUT"));
  EXPECT_EQ(answered.detail(), "POST is not for /v1/rules; expected GET, HEAD, PUT");
  EXPECT_TRUE(call("GET", "/v1/rules/reload").has("Allow", "POST"));
  EXPECT_TRUE(call("PUT", "/v1/keys").has("Allow", "GET, HEAD, DELETE"));
  EXPECT_TRUE(call("DELETE", "/v1/status").has("Allow", "GET, HEAD"));
}

TEST_F(Access, HeadIsAnsweredAsGet) {
  const Answered head = call("HEAD", "/v1/rules");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, get("/v1/rules").body);
}

TEST_F(Access, UnknownParametersAreRefused) {
  EXPECT_EQ(get("/v1/top?max=1").status, 400);
  EXPECT_EQ(get("/v1/status?limit=true").detail(),
            "'limit' is no parameter of GET /v1/status; expected limits; did you mean 'limits'?");
  EXPECT_EQ(call("POST", "/v1/rules/reload?x").detail(),
            "'x' is no parameter of POST /v1/rules/reload; expected no parameters");
  EXPECT_EQ(call("PUT", "/v1/rules?If-Match=1", {}, "").detail(),
            "'If-Match' is no parameter of PUT /v1/rules; expected file or strict");
  EXPECT_EQ(call("DELETE", "/v1/rules?x=1").status, 405) << "first the method";
  EXPECT_EQ(get("/v1/status?").status, 200);
  EXPECT_EQ(get("/v1/status?&limits=false&").status, 200);
  EXPECT_EQ(get("/v1/status?%6cimits=true").status, 200);
  EXPECT_NE(get("/v1/keys?rule=none&ip=1").detail().find("there is no rule"), std::string::npos);
  EXPECT_EQ(get("/v1/keys?rule=login&attribute.ip=1&method=GET&path=/").status, 200);
  EXPECT_EQ(get("/v1/keys?rule=login&ipp=1").detail(),
            "'ipp' is no parameter of GET /v1/keys, and no rule reads such an attribute; expected "
            "rule, limit or attributes; did you mean 'ip'?");
  EXPECT_EQ(get("/v1/keys?rule=login&ip=1&%69p=2").detail(), "'ip' is repeated; expected it once");
  EXPECT_EQ(get("/v1/keys?rule=login&ip=1&attribute.ip=1").detail(),
            "'attribute.ip' is repeated; expected it once");
  EXPECT_EQ(get("/v1/keys?rule=login&attribute.rule=1&ip=1").detail().find("repeated"),
            std::string::npos);
}

TEST_F(Access, AnswersAreNotCached) {
  EXPECT_TRUE(get("/v1/status").has("Cache-Control", "no-store"));
}

}  // namespace
}  // namespace sluice::server
