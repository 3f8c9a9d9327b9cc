#include "server/api/check/check_endpoint.h"

#include "server/api/check/check_answer.h"
#include "server/decide/rejection.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kNoWaiting =
    "at wait_ms: this server lets no request wait; expected bounds.waiting above 0 in its "
    "configuration";
constexpr std::string_view name_of(CheckKind kind) noexcept {
  switch (kind) {
    case CheckKind::kCheck: return "/v1/check";
    case CheckKind::kSettle: return "/v1/settle";
    case CheckKind::kReport: return "/v1/report";
  }
  return {};
}

// The response that a request reports.
class ReportedResponse final : public AttributeSource {
 public:
  explicit ReportedResponse(const CheckRequest& request) : request_(request) {}
  std::optional<std::string_view> find(std::string_view name) const override {
    if (name == "status" && request_.status) return request_.status;
    return request_.response ? request_.response->find(name) : request_.attributes.find(name);
  }

 private:
  const CheckRequest& request_;
};

// A larger buffer is released.
constexpr std::size_t kMostKept = std::size_t{64} << 10;

}  // namespace

// Decides the requests of a body one after the other and joins their answers.
class CheckEndpoint::Decider final : public CheckListener {
 public:
  Decider(CheckEndpoint& endpoint, CheckKind kind, http::Response& response)
      : endpoint_(endpoint), kind_(kind), response_(response) {}

  void on_request(const CheckRequest& request, bool alone) override {
    if (request.wait > Duration{0} && endpoint_.waiting_.waits == nullptr) {
      return answer_problem(response_, {400, std::string(kNoWaiting)});
    }
    if (request.limit) return answer_limit(request);
    const RuleAnswer& answer = decide(request);
    if (alone) {
      response_.status = http_status(answer);
      response_.fields.append(endpoint_.fields_.lines(answer));
      append_reject_headers(answer, response_.fields);
      if (answer.decision.reason == Reason::kInvalid) {
        response_.content_type = rejection_of(answer, response_.text).content_type;
        return;
      }
    }
    if (endpoint_.text_.size() > 0) endpoint_.text_.put(',');
    put_check_answer(endpoint_.text_, answer, request.verb == Verb::kTakeAtMost);
  }

 private:
  void answer_limit(const CheckRequest& request) {
    std::string permit;
    const Limit& limit = *request.limit;
    const Decision decision = endpoint_.session_.decide({request.limit_key, limit, request.cost},
                                                        {request.verb, request.max_wait}, &permit);
    const NamedDecision named{to_string(limit.algorithm()), limit, decision};
    response_.status = http_status(decision);
    response_.fields.append(endpoint_.limit_fields_.lines({&named, 1}, decision));
    put_limit_answer(endpoint_.text_, named, permit, request.verb == Verb::kTakeAtMost);
  }

  const RuleAnswer& decide(const CheckRequest& request) {
    const RequestCosts costs(request.cost, request.costs);
    if (request.wait > Duration{0}) return wait(request, costs);
    if (kind_ == CheckKind::kSettle) {
      return endpoint_.session_.settle(request.attributes, costs,
                                       {request.actual, request.actual_costs});
    }
    if (kind_ == CheckKind::kReport) {
      return endpoint_.session_.report(request.attributes, ReportedResponse(request), costs);
    }
    return endpoint_.session_.decide(request.attributes, costs, {request.verb, request.max_wait},
                                     Permits::kHandOut);
  }

  const RuleAnswer& wait(const CheckRequest& request, const RequestCosts& costs) {
    struct Sleep : net::FiberSleep {
      Sleep(CheckEndpoint& of, net::FiberSleeps& loop) : FiberSleep(loop), endpoint(of) {
        endpoint.sleep_ = this;
      }
      ~Sleep() { endpoint.sleep_ = nullptr; }
      CheckEndpoint& endpoint;
    } sleep(endpoint_, *endpoint_.waiting_.sleeps);
    return endpoint_.session_.acquire(request.attributes, costs, request.wait,
                                      *endpoint_.waiting_.waits, sleep);
  }

  CheckEndpoint& endpoint_;
  const CheckKind kind_;
  http::Response& response_;
};

void CheckEndpoint::handle(CheckKind kind, const http::Request& request, bool may_operate,
                           http::Response& response) {
  if (request.method != "POST") {
    response.add("Allow", "POST");
    return answer_problem(
        response, {405, std::string(name_of(kind)) + " accepts only POST, with JSON as its body"});
  }
  text_.clear();
  Decider decider(*this, kind, response);
  const CheckReader::Outcome outcome = reader_.read(kind, request.body, may_operate, decider);
  if (outcome.needs_operate) return answer_problem(response, {403, outcome.error});
  if (!outcome.error.empty()) return answer_problem(response, {400, outcome.error});
  if (!response.content_type.empty()) {
    return response.answer_text(response.status, response.content_type);
  }
  if (outcome.is_array) response.text += '[';
  response.text.append(text_.view());
  if (outcome.is_array) response.text += ']';
  response.answer_text(response.status, kJson);
  if (text_.size() > kMostKept) text_ = TextBuffer();
}

}  // namespace sluice::server
