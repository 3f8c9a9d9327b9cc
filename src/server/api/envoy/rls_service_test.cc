#include "server/api/envoy/rls_service.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/api/envoy/test_service.h"

namespace sluice::server::rls_service_test {
namespace {

using rls::RateLimitResponse;

constexpr std::string_view kEnvoy = R"(
domain: shop
descriptors:
  - { key: user, rate_limit: { name: per-user, unit: minute, requests_per_unit: 2 } }
  - { key: path, value: "/api/*", rate_limit: { unit: week, requests_per_unit: 5 } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: ok, metadata: { ok: true } }
  - { key: q, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: once, metadata: { once: 1 }, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - key: m1
    metadata: { tier: gold, n: 1, deep: { a: 1 } }
    rate_limit: { unit: hour, requests_per_unit: 9 }
  - key: m2
    metadata: { tier: { a: 2 }, deep: { a: 3, b: [ true ] } }
    rate_limit: { unit: hour, requests_per_unit: 9 }
)";

constexpr std::string_view kNative = R"(
version: 1
domain: native
rules:
  - name: both
    match: { user: "**", path: "**" }
    limits:
      - { name: user, key: "{user}", algorithm: fixed_window, limit: 3, per: 1m, align: clock }
      - { name: path, key: "{path}", algorithm: token_bucket, limit: 9, per: 1m }
  - name: user
    match: { user: "**" }
    limits:
      - { name: user, key: "{user}", algorithm: fixed_window, limit: 1, per: 1m, align: clock }
  - name: model
    match: { model: "**" }
    limits: [ { name: all, algorithm: fixed_window, limit: 2, per: 1m } ]
    degrade: { at: 100%, headers: { x-model: small } }
)";

TEST_F(ServiceTest, FillsInEveryStatusInTheOrderOfTheRequest) {
  open(kEnvoy);
  const RateLimitResponse response =
      ask("shop", {"user=anna", "ok=1", "path=/api/x", "free=", "unknown=1"});
  EXPECT_EQ(status_.reason, Reason::kOk);
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  ASSERT_EQ(response.statuses_size(), 5);
  const auto& user = response.statuses(0);
  EXPECT_EQ(user.code(), RateLimitResponse::OK);
  EXPECT_EQ(user.current_limit().requests_per_unit(), 2U);
  EXPECT_EQ(user.current_limit().unit(), RateLimitResponse::RateLimit::MINUTE);
  EXPECT_EQ(user.current_limit().name(), "per-user");
  EXPECT_EQ(user.limit_remaining(), 1U);
  EXPECT_EQ(user.duration_until_reset().seconds(), 30);
  EXPECT_FALSE(response.statuses(1).has_current_limit());
  EXPECT_EQ(response.statuses(2).current_limit().unit(), RateLimitResponse::RateLimit::WEEK);
  EXPECT_FALSE(response.statuses(3).has_current_limit());
  EXPECT_EQ(response.statuses(3).limit_remaining(), std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(response.statuses(4).code(), RateLimitResponse::OK);
  EXPECT_FALSE(response.statuses(4).has_current_limit());
}

constexpr std::string_view kActions = R"(
version: 1
domain: native
rules:
  - { name: office, match: { ip: 10.0.0.0/8 }, action: allow }
  - { name: scanner, match: { path: /wp-admin/** }, action: deny }
  - { name: all, limits: [ { algorithm: fixed_window, limit: 1, per: 1m, align: clock } ] }
)";

TEST_F(ServiceTest, AnswersRulesThatAllowAndDeny) {
  open(kEnvoy, kActions);
  for (int i = 0; i < 2; ++i) {
    const RateLimitResponse allowed = ask("native", {"ip=10.0.0.1"});
    EXPECT_EQ(allowed.overall_code(), RateLimitResponse::OK);
    EXPECT_FALSE(allowed.statuses(0).has_current_limit());
    const RateLimitResponse denied = ask("native", {"ip=10.0.0.1", "path=/wp-admin/x"});
    EXPECT_EQ(denied.overall_code(), RateLimitResponse::OVER_LIMIT);
    EXPECT_EQ(denied.statuses(0).code(), RateLimitResponse::OK);
    EXPECT_EQ(denied.statuses(1).code(), RateLimitResponse::OVER_LIMIT);
    EXPECT_FALSE(denied.statuses(1).has_current_limit());
  }
  EXPECT_EQ(ask("native", {"ip=192.0.2.1"}).overall_code(), RateLimitResponse::OK);
}

TEST_F(ServiceTest, AnswersOverLimit) {
  open(kEnvoy);
  ask("shop", {"user=anna"});
  ask("shop", {"user=anna"});
  const RateLimitResponse response = ask("shop", {"path=/api/x", "user=anna"});
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(response.statuses(0).code(), RateLimitResponse::OK);
  EXPECT_EQ(response.statuses(0).limit_remaining(), 5U);
  EXPECT_EQ(response.statuses(1).code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(response.statuses(1).limit_remaining(), 0U);
  EXPECT_EQ(response.statuses(1).duration_until_reset().seconds(), 30);
}

TEST_F(ServiceTest, UsesTheHitsOfTheRequestIfADescriptorHasNone) {
  open(kEnvoy);
  auto request = request_of("shop", {"path=/api/x", "path=/api/y", "path=/api/z"});
  request.set_hits_addend(3);
  request.mutable_descriptors(1)->mutable_hits_addend()->set_value(2);
  request.mutable_descriptors(2)->mutable_hits_addend()->set_value(0);
  const RateLimitResponse response = ask(request);
  EXPECT_EQ(response.statuses(0).limit_remaining(), 2U);
  EXPECT_EQ(response.statuses(1).limit_remaining(), 3U);
  EXPECT_EQ(response.statuses(2).limit_remaining(), 5U);
}

TEST_F(ServiceTest, RefundsNegativeHits) {
  open(kEnvoy);
  ask("shop", {"user=anna"});
  auto request = request_of("shop", {"user=anna"});
  request.mutable_descriptors(0)->set_is_negative_hits(true);
  EXPECT_EQ(ask(request).statuses(0).limit_remaining(), 2U);
}

TEST_F(ServiceTest, AppliesTheLimitOfTheRequest) {
  open(kEnvoy);
  auto request = request_of("shop", {"user=anna"});
  request.mutable_descriptors(0)->mutable_limit()->set_requests_per_unit(7);
  request.mutable_descriptors(0)->mutable_limit()->set_unit(::envoy::type::v3::DAY);
  const RateLimitResponse response = ask(request);
  EXPECT_EQ(response.statuses(0).current_limit().requests_per_unit(), 7U);
  EXPECT_EQ(response.statuses(0).current_limit().unit(), RateLimitResponse::RateLimit::DAY);
  EXPECT_EQ(response.statuses(0).limit_remaining(), 6U);
  request.set_domain("of no file");
  EXPECT_FALSE(ask(request).statuses(0).has_current_limit());
}

// Envoy sends no token, so the limit needs no role.
TEST_F(ServiceTest, ReportsLimitsOfTheRequest) {
  open(kEnvoy);
  auto request = request_of("shop", {"user=anna"});
  request.mutable_descriptors(0)->mutable_limit()->set_requests_per_unit(1);
  request.mutable_descriptors(0)->mutable_limit()->set_unit(::envoy::type::v3::MINUTE);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(service_->call(request.SerializeAsString(), false, reply_).reason, Reason::kOk);
  }
  EXPECT_EQ(counted("allowed", "ok"), 1U);
  EXPECT_EQ(counted("denied", "limited"), 1U);
  EXPECT_EQ(log_lines(),
            std::vector<std::string>{
                "denied key=\"shop||user=anna|minute\" reason=limited retry_after_ms=30000"});
}

TEST_F(ServiceTest, CountsTheKeysOfEnvoysFilesByTheirAlgorithm) {
  open(kEnvoy);
  for (int i = 0; i < 3; ++i) ask("shop", {"user=u1", "free=x", "ok=y"});
  ask("shop", {"path=/api/a"});
  auto request = request_of("shop", {"user=u2", "user=u3"});
  request.mutable_descriptors(0)->mutable_hits_addend()->set_value(0);
  request.mutable_descriptors(1)->set_is_negative_hits(true);
  ask(request);
  keys_.hand_over();
  top_keys_.collect(rules_->current());
  const auto asked = top_keys_.top({.by = insight::TopBy::kAsked});
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].rule + "/" + asked[0].limit, "/fixed_window");
  EXPECT_EQ(asked[0].total, 4U) << "without a peek, and without hits that are given back";
  const auto denied = top_keys_.top({});
  ASSERT_EQ(denied.size(), 1U);
  ASSERT_EQ(denied[0].keys.size(), 1U);
  EXPECT_EQ(denied[0].keys[0].text, "shop||user=u1");
  EXPECT_EQ(denied[0].keys[0].count, 1U);
}

TEST_F(ServiceTest, RefusesALimitOfTheRequestWithAnUnknownUnit) {
  open(kEnvoy);
  for (const int unit : {-1, 0, 7, 100}) {  // a request's units have no week
    auto request = request_of("shop", {"user=anna"});
    request.mutable_descriptors(0)->mutable_limit()->set_requests_per_unit(7);
    request.mutable_descriptors(0)->mutable_limit()->set_unit(
        static_cast<::envoy::type::v3::RateLimitUnit>(unit));
    ask(request);
    EXPECT_EQ(status_.reason, Reason::kInvalid) << unit;
    EXPECT_EQ(status_.message, "descriptors[0].limit.unit is unknown; expected SECOND to YEAR");
  }
}

TEST_F(ServiceTest, RefusesMessagesThatAreNotARequest) {
  open(kEnvoy);
  ask("", {"user=anna"});
  EXPECT_EQ(status_.reason, Reason::kInvalid);
  EXPECT_EQ(status_.message, "domain is empty; expected its name");
  ask("shop", {});
  EXPECT_EQ(status_.reason, Reason::kInvalid);
  EXPECT_EQ(status_.message, "descriptors are missing; expected at least one");
  ask("shop", {"=x"});
  EXPECT_EQ(status_.reason, Reason::kInvalid);
  ask("of no file", {"=x"});
  EXPECT_EQ(status_.reason, Reason::kInvalid);
  ask("shop", std::vector<std::string_view>(1025, "ok=1"));
  EXPECT_EQ(status_.reason, Reason::kInvalid);
  EXPECT_EQ(service_->call("\xff\xff", true, reply_).reason, Reason::kInvalid);
  EXPECT_TRUE(reply_.empty());
}

// A client that could send unreadable values would not be limited.
TEST_F(ServiceTest, LimitsValuesThatAreNotUtf8) {
  open(kEnvoy);
  wire::Request request;
  request.set_domain("shop");
  auto& entry = *request.add_descriptors()->add_entries();
  entry.set_key("user");
  entry.set_value("\xff\x00\xfe");
  RateLimitResponse response;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(service_->call(request.SerializeAsString(), true, reply_).reason, Reason::kOk);
    ASSERT_TRUE(response.ParseFromString(reply_));
  }
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OVER_LIMIT);
}

// Protobuf would log each one to standard error, which any client could fill.
TEST_F(ServiceTest, WritesNothingAboutInvalidUtf8ToStandardError) {
  open(kEnvoy, kNative, {.headers = true, .request_metadata = true});
  ::testing::internal::CaptureStderr();
  for (const std::string_view domain : {"shop", "native", "\xff"}) {
    for (const std::string_view key : {"user", "q", "\xfe"}) {
      wire::Request request;
      request.set_domain(std::string(domain));
      auto& entry = *request.add_descriptors()->add_entries();
      entry.set_key(std::string(key));
      entry.set_value("\xff\xc3");
      EXPECT_EQ(service_->call(request.SerializeAsString(), true, reply_).reason, Reason::kOk);
      EXPECT_TRUE(RateLimitResponse().ParseFromString(reply_));
    }
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(ServiceTest, GrantsAQuotaInQuotaMode) {
  open(kEnvoy);
  const RateLimitResponse response = ask("shop", {"q=1"});
  const auto& quota = response.statuses(0).quota();
  EXPECT_EQ(quota.requests(), 2U);
  EXPECT_EQ(quota.valid_until().seconds(), 365 * 24 * 3600 + 3600);
  EXPECT_EQ(quota.id(), "shop||q=1");
  EXPECT_FALSE(ask("shop", {"user=1"}).statuses(0).has_quota());
  ask("shop", {"q=1"});
  EXPECT_FALSE(ask("shop", {"q=1"}).statuses(0).has_quota());
}

TEST_F(ServiceTest, MergesTheMetadataOfMatchedDescriptors) {
  open(kEnvoy);
  EXPECT_FALSE(ask("shop", {"user=1"}).has_dynamic_metadata());
  EXPECT_TRUE(ask("shop", {"ok=1"}).dynamic_metadata().fields().at("ok").bool_value());
  const RateLimitResponse response = ask("shop", {"m1=1", "m2=1"});
  const auto& fields = response.dynamic_metadata().fields();
  EXPECT_EQ(fields.at("n").number_value(), 1.0);
  EXPECT_EQ(fields.at("tier").string_value(), "gold") << "the first of two that differ stays";
  const auto& both = fields.at("deep").struct_value().fields();
  EXPECT_EQ(both.at("a").number_value(), 1.0);
  EXPECT_TRUE(both.at("b").list_value().values(0).bool_value());
}

// Envoy then routes traffic to where a quota is left.
TEST_F(ServiceTest, OmitsTheMetadataOfDescriptorsOverTheirLimit) {
  open(kEnvoy);
  EXPECT_TRUE(ask("shop", {"once=1", "m1=1"}).dynamic_metadata().fields().contains("once"));
  const RateLimitResponse response = ask("shop", {"once=1", "m1=1"});
  EXPECT_EQ(response.statuses(0).code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_FALSE(response.dynamic_metadata().fields().contains("once"));
  EXPECT_TRUE(response.dynamic_metadata().fields().contains("tier"));
}

TEST_F(ServiceTest, ReportsTheTightestLimitInHeadersIfConfigured) {
  open(kEnvoy);
  EXPECT_EQ(ask("shop", {"user=1"}).response_headers_to_add_size(), 0);
  open(kEnvoy, kNative, {.headers = true, .limit_header = "X-Limit"});
  const RateLimitResponse response = ask("shop", {"path=/api/x", "user=1", "ok=1"});
  ASSERT_EQ(response.response_headers_to_add_size(), 3);
  EXPECT_EQ(response.response_headers_to_add(0).key(), "X-Limit");
  EXPECT_EQ(response.response_headers_to_add(0).value(), "2");
  EXPECT_EQ(response.response_headers_to_add(1).key(), "RateLimit-Remaining");
  EXPECT_EQ(response.response_headers_to_add(1).value(), "0");
  EXPECT_EQ(response.response_headers_to_add(2).value(), "30");
  EXPECT_EQ(ask("shop", {"ok=1"}).response_headers_to_add_size(), 0);
}

TEST_F(ServiceTest, AddsTheHeadersOfADegradedRuleToTheRequest) {
  open(kEnvoy, kNative);
  EXPECT_EQ(ask("native", {"model=a"}).request_headers_to_add_size(), 0);
  const RateLimitResponse response = ask("native", {"model=a", "user=1"});
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  ASSERT_EQ(response.request_headers_to_add_size(), 1);
  EXPECT_EQ(response.request_headers_to_add(0).key(), "x-model");
  EXPECT_EQ(response.request_headers_to_add(0).value(), "small");
  EXPECT_EQ(ask("native", {"model=a"}).request_headers_to_add_size(), 0) << "it is denied";
}

TEST_F(ServiceTest, ReportsTheRequestInMetadataIfConfigured) {
  open(kEnvoy, kNative, {.request_metadata = true});
  for (int i = 0; i < 3; ++i) ask("shop", {"q=1"});
  const RateLimitResponse response = ask("shop", {"user=1", "q=1", "q=2", "m1=1"});
  const auto& fields = response.dynamic_metadata().fields();
  EXPECT_EQ(fields.at("domain").string_value(), "shop");
  EXPECT_FALSE(fields.contains("hitsAddend"));
  EXPECT_EQ(fields.at("descriptors").list_value().values_size(), 4);
  const auto& first = fields.at("descriptors").list_value().values(0).struct_value().fields();
  EXPECT_EQ(first.at("entries").list_value().values(0).string_value(), "user=1");
  EXPECT_EQ(first.size(), 1U);
  EXPECT_EQ(fields.at("quotaModeViolations").list_value().values(0).number_value(), 1.0);
  EXPECT_EQ(fields.at("metadata").struct_value().fields().at("tier").string_value(), "gold");
  EXPECT_FALSE(fields.contains("tier"));
}

TEST_F(ServiceTest, ReportsTheMetadataOfTheRequest) {
  open(kEnvoy, kNative, {.request_metadata = true});
  wire::Request request;
  request.set_domain("shop");
  request.set_hits_addend(3);
  auto& descriptor = *request.add_descriptors();
  auto& entry = *descriptor.add_entries();
  entry.set_key("x");
  entry.set_value("y");
  descriptor.mutable_limit()->set_requests_per_unit(5);
  descriptor.mutable_limit()->set_unit(3);
  descriptor.mutable_hits_addend()->set_value(2);
  ASSERT_EQ(service_->call(request.SerializeAsString(), true, reply_).reason, Reason::kOk);
  RateLimitResponse response;
  ASSERT_TRUE(response.ParseFromString(reply_));
  const auto& fields = response.dynamic_metadata().fields();
  EXPECT_EQ(fields.at("hitsAddend").number_value(), 3.0);
  const auto& told = fields.at("descriptors").list_value().values(0).struct_value().fields();
  EXPECT_EQ(told.at("limit").string_value(), "requests_per_unit:5 unit:HOUR");
  EXPECT_EQ(told.at("hitsAddend").number_value(), 2.0);
}

// Like Envoy's own service, for users who rely on it.
TEST_F(ServiceTest, ChargesEachDescriptorSeparatelyIfItConsumesOnReject) {
  open(kEnvoy, kNative, {.consume_on_reject = true});
  ask("shop", {"user=1", "user=1"});
  const RateLimitResponse denied = ask("shop", {"path=/api/x", "user=1"});
  EXPECT_EQ(denied.overall_code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(denied.statuses(0).limit_remaining(), 4U);
  auto request = request_of("shop", {"path=/api/x"});
  request.set_hits_addend(5);
  EXPECT_EQ(ask(request).overall_code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(ask("shop", {"path=/api/x"}).overall_code(), RateLimitResponse::OVER_LIMIT);
}

// Native rules always decide all or nothing.
TEST_F(ServiceTest, NativeRulesTakeAllOrNothingEvenIfItConsumesOnReject) {
  open(kEnvoy, kNative, {.consume_on_reject = true});
  ask("native", {"user=a"});
  ask("native", {"user=a,path=/x", "user=a"});
  EXPECT_EQ(ask("native", {"user=a,path=/x"}).statuses(0).limit_remaining(), 2U);
}

TEST_F(ServiceTest, AnswersOkToAllInShadowMode) {
  open(kEnvoy, kNative, {.shadow_mode = true});
  RateLimitResponse response;
  for (int i = 0; i < 3; ++i) response = ask("shop", {"user=1"});
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  EXPECT_EQ(response.statuses(0).code(), RateLimitResponse::OVER_LIMIT);
}

TEST_F(ServiceTest, IsUnavailableIfTheStoreCannotDecideAndThereIsNoFallback) {
  open(kEnvoy);
  store_.fails = true;
  ask("shop", {"user=1"});
  EXPECT_EQ(status_.reason, Reason::kStoreTimeout);
  EXPECT_EQ(status_.message, "the store could not decide: store_timeout");
  EXPECT_EQ(ask("shop", {"ok=1"}).overall_code(), RateLimitResponse::OK);
}

constexpr std::string_view kPolicies = R"(
domain: shop
descriptors:
  - { key: error, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: deny, rate_limit: { unit: minute, requests_per_unit: 2, on_store_error: deny } }
  - { key: allow, rate_limit: { unit: minute, requests_per_unit: 2, on_store_error: allow } }
)";

TEST_F(ServiceTest, ReportsRequestsThatTheStoreCannotDecide) {
  std::string sent;
  OtlpExporter spans({.endpoint = "http://127.0.0.1:4318", .sample = 0},
                     {.metrics = registry_,
                      .log = *log_,
                      .shown_key = [](auto key) { return std::string(key); },
                      .post =
                          [&](std::string_view path, const std::string& message) {
                            if (path == "/v1/traces") sent += message;
                            return net::HttpClient::Answer{200, {}};
                          }});
  otlp_ = &spans;
  open(kPolicies);
  for (const std::string_view key : {"error=a", "deny=a", "allow=a"}) ask("shop", {key});
  EXPECT_EQ(counted("allowed", "ok"), 0U) << "sluice_envoy_decisions_total has them";
  store_.fails = true;
  for (const std::string_view key : {"error=a", "deny=a", "allow=a"}) ask("shop", {key});
  auto unseen = request_of("shop", {"error=a"});
  const auto check = RlsMethod::kCheckRateLimit;
  service_->call(unseen.SerializeAsString(), true, reply_, {}, check);
  unseen.mutable_descriptors(0)->set_is_negative_hits(true);
  ask(unseen);
  EXPECT_EQ(status_.reason, Reason::kStoreTimeout);
  EXPECT_EQ(counted("denied", "store_timeout"), 1U) << "without looks and refunds";
  EXPECT_EQ(counted("denied", "fallback"), 1U);
  EXPECT_EQ(counted("allowed", "fallback"), 1U);
  spans.send();
  EXPECT_NE(sent.find("shop||error=a"), std::string::npos);
  EXPECT_NE(sent.find("store_timeout"), std::string::npos);
  EXPECT_EQ(log_lines(),
            (std::vector<std::string>{
                "denied rule=shop/error limit=minute key=\"shop||error=a\" reason=store_timeout",
                "denied rule=shop/deny limit=minute key=\"shop||deny=a\" reason=fallback"}));
}

TEST_F(ServiceTest, NativeRulesDecideADomainThatNoFileHas) {
  open(kEnvoy, kNative);
  const RateLimitResponse response = ask("native", {"user=a,path=/x", "user=a", "other=1"});
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  ASSERT_EQ(response.statuses_size(), 3);
  EXPECT_EQ(response.statuses(0).current_limit().name(), "user");
  EXPECT_EQ(response.statuses(0).current_limit().requests_per_unit(), 3U);
  EXPECT_EQ(response.statuses(0).current_limit().unit(), RateLimitResponse::RateLimit::MINUTE);
  EXPECT_EQ(response.statuses(0).limit_remaining(), 2U);
  EXPECT_EQ(response.statuses(0).duration_until_reset().seconds(), 30);
  EXPECT_EQ(response.statuses(1).limit_remaining(), 0U);
  EXPECT_FALSE(response.statuses(2).has_current_limit());
}

// As /v1/check, whose fields have no time then.
TEST_F(ServiceTest, NativeRulesSayNoTimeIfUnitsNeverComeBack) {
  open(kEnvoy, R"(
version: 1
domain: native
rules:
  - { name: none, match: { a: "**" }, limits: [ { key: "{a}", algorithm: token_bucket, limit: 0, per: 1m } ] }
  - { name: some, limits: [ { key: "{b}", algorithm: token_bucket, limit: 10, per: 1m } ] }
)",
       {.headers = true});
  const auto has_time = [this](std::string_view descriptor) {
    const RateLimitResponse response = ask("native", {descriptor});
    EXPECT_TRUE(response.statuses(0).has_current_limit());
    const bool has = response.statuses(0).has_duration_until_reset();
    EXPECT_EQ(response.response_headers_to_add_size(), has ? 3 : 2);
    return has;
  };
  EXPECT_FALSE(has_time("a=x"));
  EXPECT_TRUE(has_time("b=x"));
  const Attributes attributes{{"b", "x"}};
  const Override blocked{.kind = Override::Kind::kBlocked};
  const auto key = name_override(rules_->current(), "some", "some/0", attributes, blocked);
  ASSERT_TRUE(key) << key.error();
  ASSERT_TRUE(overrides_.set(*key, blocked));
  EXPECT_FALSE(has_time("b=x"));
}

TEST_F(ServiceTest, NativeRulesTakeAllOrNothing) {
  open(kEnvoy, kNative);
  ask("native", {"user=a"});
  const RateLimitResponse denied = ask("native", {"user=a,path=/x", "user=a"});
  EXPECT_EQ(denied.overall_code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(denied.statuses(0).code(), RateLimitResponse::OK);
  EXPECT_EQ(denied.statuses(1).code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(ask("native", {"user=a,path=/x"}).statuses(0).limit_remaining(), 2U);
}

TEST_F(ServiceTest, NativeRulesPeekAndRefund) {
  open(kEnvoy, kNative);
  ask("native", {"user=a"});
  auto request = request_of("native", {"user=a"});
  request.mutable_descriptors(0)->mutable_hits_addend()->set_value(0);
  EXPECT_EQ(ask(request).statuses(0).limit_remaining(), 0U);
  request.mutable_descriptors(0)->mutable_hits_addend()->set_value(1);
  request.mutable_descriptors(0)->set_is_negative_hits(true);
  EXPECT_EQ(ask(request).statuses(0).limit_remaining(), 1U);
  EXPECT_EQ(ask(request).overall_code(), RateLimitResponse::OK);
}

constexpr std::string_view kCalls = R"(
version: 1
domain: calls
rules:
  - name: calls
    limits: [ { name: calls, key: "{user}", algorithm: fixed_window, limit: 2, per: 60s, cost: 1 } ]
)";

TEST_F(ServiceTest, ADescriptorOfNoHitsLooksAtLimitsWithACostOfTheirOwn) {
  open(kEnvoy, kCalls);
  const auto ask_with_hits = [this](std::uint64_t hits, bool gives_back = false) {
    auto request = request_of("calls", {"user=a"});
    request.mutable_descriptors(0)->mutable_hits_addend()->set_value(hits);
    request.mutable_descriptors(0)->set_is_negative_hits(gives_back);
    const RateLimitResponse response = ask(request);
    EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
    return response.statuses(0).limit_remaining();
  };
  EXPECT_EQ(ask_with_hits(0), 2U);
  EXPECT_EQ(ask_with_hits(1), 1U);
  EXPECT_EQ(ask_with_hits(0, true), 1U) << "gives nothing back";
  EXPECT_EQ(ask_with_hits(1), 0U);
  EXPECT_EQ(ask_with_hits(0), 0U) << "is never over its limit";
  auto request = request_of("calls", {"user=a", "user=b"});
  request.mutable_descriptors(1)->set_is_negative_hits(true);
  const RateLimitResponse denied = ask(request);
  EXPECT_EQ(denied.overall_code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(denied.statuses(1).limit_remaining(), 2U) << "only reads after a denial";
}

TEST_F(ServiceTest, UsesNoRulesOfOtherDomains) {
  open(kEnvoy, kNative);
  for (int i = 0; i < 3; ++i) {
    const RateLimitResponse response = ask("default", {"user=a"});
    EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
    EXPECT_FALSE(response.statuses(0).has_current_limit());
  }
}

TEST_F(ServiceTest, FollowsTheFiles) {
  open(kEnvoy);
  EXPECT_TRUE(ask("shop", {"user=1"}).statuses(0).has_current_limit());
  folder_.write("envoy.yaml", "domain: shop\n");
  ASSERT_TRUE(*envoy_->reload());
  EXPECT_FALSE(ask("shop", {"user=1"}).statuses(0).has_current_limit());
}

TEST_F(ServiceTest, KeepsCountersWhenNumbersChange) {
  open(kEnvoy);
  ask("shop", {"user=1"});
  folder_.write("envoy.yaml",
                "domain: shop\ndescriptors: [ { key: user, rate_limit: { unit: "
                "minute, requests_per_unit: 10 } } ]\n");
  ASSERT_TRUE(*envoy_->reload());
  EXPECT_EQ(ask("shop", {"user=1"}).statuses(0).limit_remaining(), 8U);
}

constexpr std::string_view kModels = R"(
version: 1
domain: models
rules:
  - name: models
    continue: true
    limits: [ { name: tokens, algorithm: fixed_window, limit: 90, per: 60s, cost: "{tokens|50}" } ]
)";

TEST_F(ServiceTest, NativeRulesChargeEachLimitItsOwnCost) {
  open(kEnvoy, kModels);
  const auto left = [&](const rls::RateLimitRequest& request) {
    return ask(request).statuses(0).limit_remaining();
  };
  EXPECT_EQ(left(request_of("models", {"tokens=20"})), 70U);
  auto request = request_of("models", {"user=a"});
  request.set_hits_addend(9);
  EXPECT_EQ(left(request), 20U) << "the default, not the hits";
}

TEST_F(ServiceTest, DeniesARequestThatAValueOfTheClientMakesInvalid) {
  for (const bool is_shadow : {false, true}) {
    open(kEnvoy, kModels, {.shadow_mode = is_shadow});
    const RateLimitResponse denied = ask("models", {"tokens=many"});
    EXPECT_EQ(status_.reason, Reason::kInvalid);
    EXPECT_EQ(status_.message,
              "the cost of the limit 'tokens', 'tokens', is 'many'; expected a whole number from 0 "
              "to 4294967295");
    EXPECT_EQ(denied.overall_code(),
              is_shadow ? RateLimitResponse::OK : RateLimitResponse::OVER_LIMIT);
    ASSERT_EQ(denied.statuses_size(), 1);
    EXPECT_EQ(denied.statuses(0).code(), RateLimitResponse::OVER_LIMIT);
  }
}

TEST_F(ServiceTest, TwoDescriptorsOfOneRowOfBudgetsAskForTheSum) {
  open(kEnvoy, R"(
version: 1
domain: llm
rules:
  - name: models
    limits:
      - { name: org, key: "{org}", algorithm: budget, limit: 10, per: never,
          overflow: { name: credits, key: "{org}", limit: 5, per: never } }
)");
  const auto ask_both = [&](std::uint32_t hits) {
    auto request = request_of("llm", {"org=a,agent=x", "org=a,agent=y"});
    request.set_hits_addend(hits);
    return ask(request);
  };
  const auto expect = [&](const RateLimitResponse& said, RateLimitResponse::Code code,
                          std::uint32_t left) {
    EXPECT_EQ(status_.reason, Reason::kOk) << status_.message;
    EXPECT_EQ(said.overall_code(), code);
    ASSERT_EQ(said.statuses_size(), 2);
    for (const auto& status : said.statuses()) {
      EXPECT_EQ(status.code(), code);
      EXPECT_EQ(status.limit_remaining(), left);
    }
  };
  expect(ask_both(4), RateLimitResponse::OK, 2);
  expect(ask_both(3), RateLimitResponse::OVER_LIMIT, 2);  // 6 fit into none of them
  expect(ask_both(2), RateLimitResponse::OK, 1);          // 4 fit into the credits only
  const RateLimitResponse apart = ask("llm", {"org=b", "org=a"});
  EXPECT_EQ(apart.statuses(0).limit_remaining(), 9U);
  EXPECT_EQ(apart.statuses(1).limit_remaining(), 1U);
}

TEST_F(ServiceTest, HitsAreTheNumberOfTheRequestOfNativeRules) {
  open(kEnvoy, R"(
version: 1
domain: models
rules:
  - { name: by-hits, match: { kind: tokens }, limits: [ { algorithm: fixed_window, limit: 90, per: 60s, cost: request } ] }
  - { name: by-calls, limits: [ { algorithm: fixed_window, limit: 90, per: 60s, cost: 1 } ] }
)");
  auto request = request_of("models", {"kind=tokens", "kind=calls"});
  request.set_hits_addend(40);
  const RateLimitResponse response = ask(request);
  EXPECT_EQ(response.statuses(0).limit_remaining(), 50U);
  EXPECT_EQ(response.statuses(1).limit_remaining(), 89U);
}

}  // namespace
}  // namespace sluice::server::rls_service_test
