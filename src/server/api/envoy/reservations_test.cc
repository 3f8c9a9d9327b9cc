#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kuadrant/service/ratelimit/v1/kuadrantrls.pb.h"
#include "server/api/envoy/rls_service.h"
#include "server/api/envoy/test_service.h"

namespace sluice::server::reservations_test {
namespace {

using namespace std::chrono_literals;
namespace kuadrant = ::kuadrant::service::ratelimit::v1;
using rls::RateLimitResponse;

constexpr std::string_view kEnvoy = R"(
domain: shop
descriptors: [ { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } } ]
)";

constexpr std::string_view kRules = R"(
version: 1
domain: llm
rules:
  - name: models
    match: { model: "**" }
    limits:
      - { name: calls, key: "{org}", algorithm: fixed_window, limit: 5, per: 1h, cost: 1 }
      - { name: org, key: "{org}", algorithm: budget, limit: 9007199254740991, per: never }
      - { name: agent, key: "{org} {agent}", algorithm: budget, limit: 1000, per: day,
          on_expiry: release, cost: "{max_tokens|500}" }
  - name: plain
    match: { plain: "**" }
    limits: [ { algorithm: fixed_window, limit: 10, per: 1m } ]
)";
constexpr std::uint64_t kLargest = (std::uint64_t{1} << 53) - 1;
constexpr std::string_view kCall = "model=small,org=acme,agent=a";

class Reservations : public ServiceTest {
 protected:
  Reservations() {
    open(kEnvoy, kRules);
    session_.emplace(Session::Parts{limiter_, *rules_, recorder_, denials_});
  }

  template <typename Answer, typename Message>
  Answer call(RlsMethod method, const Message& message) {
    status_ = service_->call(message.SerializeAsString(), may_operate_, reply_, {}, method);
    Answer answer;
    EXPECT_TRUE(answer.ParseFromString(reply_));
    return answer;
  }
  template <typename Message>
  static Message message_of(std::string_view domain, std::string_view descriptor) {
    Message message;
    message.set_domain(std::string(domain));
    *message.mutable_descriptors() = request_of(domain, {descriptor}).descriptors();
    return message;
  }
  kuadrant::ReserveResponse reserve(std::uint64_t amount, std::int64_t ttl = 30,
                                    std::string_view descriptor = kCall,
                                    std::string_view domain = "llm") {
    auto message = message_of<kuadrant::ReserveRequest>(domain, descriptor);
    message.set_amount(amount);
    if (ttl != 0) message.mutable_ttl()->set_seconds(ttl);
    return call<kuadrant::ReserveResponse>(RlsMethod::kReserve, message);
  }
  bool commit(const std::string& id, std::uint64_t amount, std::string_view descriptor = kCall,
              std::string_view domain = "llm") {
    auto message = message_of<kuadrant::CommitRequest>(domain, descriptor);
    message.set_reservation_id(id);
    message.set_actual_amount(amount);
    return call<kuadrant::CommitResponse>(RlsMethod::kCommit, message).reservation_released();
  }
  RateLimitResponse ask_by(RlsMethod method, const rls::RateLimitRequest& request) {
    return call<RateLimitResponse>(method, request);
  }
  // What is left of the calls, and of the budgets of the organisation and the agent.
  std::vector<std::uint64_t> left() {
    static constexpr LimitCost kNoCall[] = {{"calls", 0}};
    std::vector<std::uint64_t> left;
    const auto& answer = *session_->decide({.attributes = attributes_,
                                            .costs = {0, kNoCall},
                                            .action = Verb::kPeek,
                                            .rule = "models"});
    for (const LimitAnswer& limit : answer.limits) left.push_back(limit.decision.remaining);
    return left;
  }

  Attributes attributes_{{"model", "small"}, {"org", "acme"}, {"agent", "a"}, {"max_tokens", "0"}};
  std::optional<Session> session_;
  bool may_operate_ = true;
};
using Numbers = std::vector<std::uint64_t>;

TEST_F(Reservations, HoldsTheAmountOfAllBudgetsAndSettlesItOnce) {
  const auto held = reserve(700);
  EXPECT_EQ(held.code(), RateLimitResponse::OK);
  EXPECT_EQ(held.reservation_id().size(), 24U);
  EXPECT_EQ(left(), (Numbers{4, kLargest - 700, 300}));  // the amount, and not {max_tokens|500}
  EXPECT_TRUE(commit(held.reservation_id(), 512));
  EXPECT_EQ(left(), (Numbers{4, kLargest - 512, 488}));
  EXPECT_TRUE(commit(held.reservation_id(), 512));  // the answer was lost
  EXPECT_EQ(left(), (Numbers{4, kLargest - 512, 488}));
  commit(held.reservation_id(), 513);
  EXPECT_EQ(status_.reason, Reason::kConflict);
  EXPECT_NE(status_.message.find("another amount"), std::string_view::npos);
  EXPECT_EQ(left(), (Numbers{4, kLargest - 512, 488}));
}

TEST_F(Reservations, AnswersOverLimitWithoutAnId) {
  const auto denied = reserve(1001);
  EXPECT_EQ(denied.code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(denied.reservation_id(), "");
  EXPECT_EQ(left(), (Numbers{5, kLargest, 1000}));
}

TEST_F(Reservations, MayBeAsLargeAsABudget) {
  const auto held = reserve(kLargest, 30, "model=small,org=acme");  // no key, so no agent
  EXPECT_EQ(held.code(), RateLimitResponse::OK);
  EXPECT_EQ(left()[1], 0U);
  EXPECT_TRUE(commit(held.reservation_id(), kLargest - 1, "model=small,org=acme"));
  EXPECT_EQ(left()[1], 1U);
}

TEST_F(Reservations, EndWithTheirTime) {
  const auto held = reserve(700, 0);  // 60 s
  clock_.advance(60s - 1us);
  EXPECT_EQ(left()[2], 300U);
  clock_.advance(1us);
  EXPECT_EQ(left(), (Numbers{4, kLargest - 700, 1000}));  // one is charged, one released
  EXPECT_FALSE(commit(held.reservation_id(), 512));
  EXPECT_EQ(left(), (Numbers{4, kLargest - 512, 488}));
  commit(held.reservation_id(), 512);
  EXPECT_EQ(left(), (Numbers{4, kLargest - 512, 488}));
}

TEST_F(Reservations, CountAnUnknownIdOnce) {
  EXPECT_FALSE(commit("unknown", 10));
  EXPECT_EQ(left(), (Numbers{5, kLargest - 10, 990}));
  EXPECT_FALSE(commit("unknown", 10));  // as at first
  EXPECT_EQ(status_.reason, Reason::kOk);
  EXPECT_EQ(left(), (Numbers{5, kLargest - 10, 990}));
}

TEST_F(Reservations, CommitWithoutAnIdAsAReport) {
  for (int i = 1; i <= 2; ++i) EXPECT_FALSE(commit("", 10));
  EXPECT_EQ(left(), (Numbers{3, kLargest - 20, 980}));
  may_operate_ = false;
  commit("", 10);
  EXPECT_TRUE(status_.forbidden);
  EXPECT_EQ(left(), (Numbers{3, kLargest - 20, 980}));
}

TEST_F(Reservations, OfNothingAskWhetherSomethingIsLeft) {
  const auto nothing = reserve(0);
  EXPECT_EQ(nothing.code(), RateLimitResponse::OK);
  EXPECT_EQ(left(), (Numbers{5, kLargest, 1000}));
  EXPECT_FALSE(commit(nothing.reservation_id(), 1000));
  EXPECT_EQ(reserve(0).code(), RateLimitResponse::OVER_LIMIT);
}

TEST_F(Reservations, NeedNoMoreRightsThanACheck) {
  may_operate_ = false;
  reserve(2);
  EXPECT_TRUE(status_.forbidden);
  const auto held = reserve(1);
  EXPECT_EQ(held.code(), RateLimitResponse::OK);
  EXPECT_TRUE(commit(held.reservation_id(), 900));
  EXPECT_EQ(left(), (Numbers{4, kLargest - 900, 100}));
}

TEST_F(Reservations, ApplyToNoBudget) {
  const auto held = reserve(7, 30, "plain=x");
  EXPECT_EQ(held.code(), RateLimitResponse::OK);
  EXPECT_FALSE(commit(held.reservation_id(), 5, "plain=x"));
  EXPECT_EQ(ask("llm", {"plain=x"}).statuses(0).limit_remaining(), 2U);  // as taken
  EXPECT_EQ(reserve(7, 30, kCall, "nowhere").code(), RateLimitResponse::OK);
  EXPECT_EQ(left(), (Numbers{5, kLargest, 1000}));
}

TEST_F(Reservations, SayWhatIsWrong) {
  const auto expect = [this](std::string_view what) {
    EXPECT_EQ(status_.reason, Reason::kInvalid);
    EXPECT_EQ(status_.message.substr(0, what.size()), what);
    EXPECT_EQ(reply_, "");
  };
  reserve(kLargest + 1);
  expect("amount is 9007199254740992; expected at most 9007199254740991");
  for (const std::int64_t ttl : {-1, 86'401}) {
    reserve(1, ttl);
    expect("ttl is out of range; expected 1 s to 24 h, or none for 60 s");
  }
  auto message = message_of<kuadrant::ReserveRequest>("llm", kCall);
  message.set_amount(1);
  for (const auto [seconds, nanos] :
       {std::pair{0, 999'999'000}, {5, -1}, {86'400, 1}, {1, 1'000'000'000}}) {
    message.mutable_ttl()->set_seconds(seconds);
    message.mutable_ttl()->set_nanos(nanos);
    call<kuadrant::ReserveResponse>(RlsMethod::kReserve, message);
    expect("ttl is out of range");
  }
  message.clear_ttl();
  message.mutable_descriptors(0)->mutable_hits_addend()->set_value(2);
  call<kuadrant::ReserveResponse>(RlsMethod::kReserve, message);
  expect("descriptors[0] has hits of its own; expected only amount");
  message.clear_descriptors();
  call<kuadrant::ReserveResponse>(RlsMethod::kReserve, message);
  expect("descriptors are missing");
  reserve(1, 30, kCall, "");
  expect("domain is empty");
  reserve(1, 30, "user=anna", "shop");
  expect("domain 'shop' is that of an Envoy file, which has no budgets; expected");
  commit("id", kLargest + 1);
  expect("actual_amount is 9007199254740992; expected at most");
  commit(std::string(129, 'x'), 1);
  expect("reservation_id has 129 bytes; expected");
  status_ = service_->call("\x0a\xff", true, reply_, {}, RlsMethod::kReserve);
  expect("the message is not a ReserveRequest");
  status_ = service_->call("\x0a\xff", true, reply_, {}, RlsMethod::kCommit);
  expect("the message is not a CommitRequest");
  EXPECT_EQ(left(), (Numbers{5, kLargest, 1000}));
  EXPECT_FALSE(commit(std::string(128, 'x'), 1));
  EXPECT_EQ(status_.reason, Reason::kOk);
}

TEST_F(Reservations, FailIfTheStoreFails) {
  const auto held = reserve(700);
  store_.fails = true;
  commit(held.reservation_id(), 1);
  EXPECT_EQ(status_.reason, Reason::kStoreTimeout);
  EXPECT_EQ(reserve(1).code(), RateLimitResponse::OK);  // on_store_error: allow
  store_.fails = false;
  EXPECT_TRUE(commit(held.reservation_id(), 1));
}

TEST_F(Reservations, CheckAndReportAreTwoSteps) {
  auto request = request_of("llm", {kCall});
  for (const RlsMethod method : {RlsMethod::kCheckRateLimit, RlsMethod::kCheckRateLimit}) {
    EXPECT_EQ(ask_by(method, request).overall_code(), RateLimitResponse::OK);
  }
  EXPECT_EQ(left(), (Numbers{5, kLargest, 1000}));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(ask_by(RlsMethod::kReport, request).overall_code(), RateLimitResponse::OK);
  }
  EXPECT_EQ(left(), (Numbers{0, kLargest - 6, 0}));
  EXPECT_EQ(ask_by(RlsMethod::kCheckRateLimit, request).overall_code(),
            RateLimitResponse::OVER_LIMIT);
  may_operate_ = false;
  EXPECT_EQ(ask_by(RlsMethod::kCheckRateLimit, request).overall_code(),
            RateLimitResponse::OVER_LIMIT);
  ask_by(RlsMethod::kReport, request);
  EXPECT_TRUE(status_.forbidden);
}

TEST_F(Reservations, CheckAndReportWithAnEnvoyFile) {
  auto request = request_of("shop", {"user=anna"});
  request.set_hits_addend(2);
  EXPECT_EQ(ask_by(RlsMethod::kCheckRateLimit, request).statuses(0).limit_remaining(), 0U);
  request.set_hits_addend(3);
  EXPECT_EQ(ask_by(RlsMethod::kCheckRateLimit, request).overall_code(),
            RateLimitResponse::OVER_LIMIT);
  const auto reported = ask_by(RlsMethod::kReport, request);
  EXPECT_EQ(reported.overall_code(), RateLimitResponse::OK);
  EXPECT_EQ(reported.statuses(0).limit_remaining(), 0U);
  request.mutable_descriptors(0)->set_is_negative_hits(true);
  ask_by(RlsMethod::kCheckRateLimit, request);
  EXPECT_EQ(status_.reason, Reason::kInvalid);
  ask_by(RlsMethod::kReport, request);
  EXPECT_EQ(ask("shop", {"user=anna"}).overall_code(), RateLimitResponse::OK);
}

TEST_F(Reservations, AllHitsOfADescriptorCount) {
  auto request = request_of("llm", {"model=small,org=acme"});
  request.mutable_descriptors(0)->mutable_hits_addend()->set_value(std::uint64_t{1} << 40);
  EXPECT_EQ(ask(request).overall_code(), RateLimitResponse::OK);
  EXPECT_EQ(left()[1], kLargest - (std::uint64_t{1} << 40));
  request.mutable_descriptors(0)->set_is_negative_hits(true);
  EXPECT_EQ(ask(request).overall_code(), RateLimitResponse::OK);
  EXPECT_EQ(left()[1], kLargest);
}

}  // namespace
}  // namespace sluice::server::reservations_test
