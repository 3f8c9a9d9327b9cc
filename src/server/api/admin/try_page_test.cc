#include "server/api/admin/test_endpoint.h"

namespace sluice::server::try_page_test {
namespace {

constexpr const char* kRules =
    "version: 1\n"
    "rules:\n"
    "  - name: search\n"
    "    match: { path: /search }\n"
    "    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n"
    "  - name: sign-in\n"
    "    match: { path: /login, method: POST }\n"
    "    limits:\n"
    "      - { name: address, key: \"{ip}\", algorithm: fixed_window, limit: 2, per: 1m }\n"
    "  - name: exports\n"
    "    match: { path: /export }\n"
    "    limits: [ { name: one, algorithm: concurrency, limit: 1, lease: 1m } ]\n";

class TryPage : public TestAdmin {
 protected:
  Answered ask(std::string_view query, std::string_view request) {
    return call("POST", "/v1/try" + std::string(query), {}, request);
  }
};

constexpr std::string_view kExplained =
    "rules version 1\n"
    "rule search: does not match, path is '/login' and must be '/search'\n"
    "rule sign-in: matches; rules after it are not tried\n"
    "limit sign-in/address: 2 per 1m (fixed_window), key '192.0.2.1'\n\n";

TEST_F(TryPage, LooksAndCountsNothing) {
  open({kRules});
  for (int i = 0; i < 3; ++i) {
    const Answered answered = ask("", "POST /login ip=192.0.2.1");
    EXPECT_EQ(answered.status, 200) << answered.body;
    EXPECT_EQ(answered.body.rfind(std::string(kExplained) + "would be allowed  ok; address ", 0),
              0U)
        << answered.body;
    EXPECT_NE(answered.body.find("\nHTTP status 200\nRateLimit-Policy: "), std::string::npos);
  }
  EXPECT_NE(get("/v1/keys?rule=sign-in&ip=192.0.2.1").body.find("\"remaining\":2"),
            std::string::npos);
  EXPECT_TRUE(done_.empty());
}

TEST_F(TryPage, NamesOverrides) {
  overrides_ = std::move(ServerOverrides::open("").value());
  open({kRules});
  constexpr const char* kCounter = "default|sign-in|address|ip=192.0.2.1";
  const auto expect = [&](const std::string& line, const std::string& decision) {
    const std::string body = ask("", "POST /login ip=192.0.2.1").body;
    EXPECT_NE(body.find("\nlimit sign-in/address: " + line + "\n\n" + decision), body.npos) << body;
  };
  const Instant until = *base::parse_rfc3339("2100-01-01T00:00:00Z");
  ASSERT_TRUE(overrides_->set(kCounter, {.limit = 7, .per = 2min, .until = until}));
  expect(
      "7 per 2m (fixed_window), key '192.0.2.1', override: limit 7 per 2m, until "
      "2100-01-01T00:00:00Z",
      "would be allowed  ok; address ");
  ASSERT_TRUE(overrides_->set(kCounter, {.kind = Override::Kind::kBlocked}));
  expect("2 per 1m (fixed_window), key '192.0.2.1', override: blocked", "would be denied  blocked");
  ASSERT_TRUE(overrides_->set(kCounter, {.kind = Override::Kind::kUnlimited}));
  expect("key '192.0.2.1', override: unlimited", "would be allowed  ok\n");
  EXPECT_EQ(ask("", "POST /login ip=192.0.2.2").body.find("override"), std::string::npos);
}

// A store that cannot decide.
class Away final : public Store {
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    const Decision failed = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), failed);
    return failed;
  }
};

TEST_F(TryPage, DecidesWithoutTheStoreAsTheRuleSays) {
  open(
      {"version: 1\n"
       "rules:\n"
       "  - name: search\n"
       "    on_store_error: local\n"
       "    limits: [ { name: all, algorithm: fixed_window, limit: 2, per: 1m } ]\n"});
  Away away;
  Limiter limiter(away);
  AdminEndpoint without{
      .rules = *manager_, .limiter = limiter, .token = token_, .status = endpoint_->status};
  without.local = &store_;
  endpoint_ = std::make_unique<AdminEndpoint>(without);
  const Answered answered = ask("", "GET /search");
  EXPECT_NE(answered.body.find("would be allowed  fallback"), std::string::npos) << answered.body;
}

TEST_F(TryPage, RefusesNumbersThatAreNone) {
  open({kRules});
  for (const auto& [query, detail] : std::vector<std::pair<std::string, std::string>>{
           {"consume=3x&cost=2", "'consume' is '3x'; expected a whole number from 0 to 1000"},
           {"consume=abc", "'consume' is 'abc'; expected a whole number from 0 to 1000"},
           {"consume=", "'consume' is ''; expected a whole number from 0 to 1000"},
           {"consume=1001", "'consume' is '1001'; expected a whole number from 0 to 1000"},
           {"cost=2zz", "'cost' is '2zz'; expected a whole number from 0 to 9007199254740991"},
           {"cost=-1", "'cost' is '-1'; expected a whole number from 0 to 9007199254740991"}}) {
    const Answered answered = ask("?" + query, "POST /login ip=192.0.2.1");
    EXPECT_EQ(answered.status, 400) << query;
    EXPECT_EQ(answered.detail(), detail);
  }
  EXPECT_TRUE(done_.empty());
}

TEST_F(TryPage, ReadsLinesWithCrLf) {
  open({kRules});
  const Answered answered = ask("", "POST\r\n/login\r\nip=192.0.2.1\r\n");
  EXPECT_EQ(answered.body.rfind(kExplained, 0), 0U) << answered.body;
}

TEST_F(TryPage, TakesIfItIsTold) {
  open({kRules});
  const Answered answered = ask("?consume=3", "POST\n/login?a=b c\nip=192.0.2.1");
  EXPECT_EQ(answered.body.rfind(std::string(kExplained) + "1  allowed  ok; address 1 of 2 left\n"
                                                          "2  allowed  ok; address 0 of 2 left\n"
                                                          "3  denied  limited, again after ",
                                0),
            0U)
      << answered.body;
  EXPECT_NE(answered.body.find("\nHTTP status 429\n"), std::string::npos);
  EXPECT_EQ(done_, std::vector<std::string>{"requests tried: 3 taken by 127.0.0.1"});
  EXPECT_NE(ask("", "POST /login ip=192.0.2.1").body.find("would be denied  limited, again after "),
            std::string::npos);
}

TEST_F(TryPage, TakesNoPermitThatNobodyWouldRelease) {
  open({kRules});
  EXPECT_NE(ask("?consume=1", "/export").body.find("the request is invalid: "), std::string::npos);
  EXPECT_NE(ask("", "/export").body.find("would be allowed  ok"), std::string::npos);
}

TEST_F(TryPage, SaysWhatIsWrongWithTheRequest) {
  open({kRules});
  EXPECT_EQ(ask("", "login").detail(),
            "'login' is no part of a request; expected a method such as POST, a path such as "
            "/login, or NAME=VALUE such as ip=192.0.2.1");
  EXPECT_EQ(ask("", "").detail(),
            "the request is empty; expected one such as 'POST /login ip=192.0.2.1'");
  EXPECT_EQ(ask("", "/login ipp=1")
                .body.rfind("no rule reads the attribute 'ipp'; did you mean "
                            "'ip'?\nrules version 1\n",
                            0),
            0U);
}

}  // namespace
}  // namespace sluice::server::try_page_test
