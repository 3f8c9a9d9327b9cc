#include "server/api/check/check_endpoint.h"

#include "server/api/check/check_answer.h"
#include "server/decide/rejection.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

constexpr std::string_view kJson = "application/json";
// A larger buffer is released.
constexpr std::size_t kMostKept = std::size_t{64} << 10;

}  // namespace

// Decides the requests of a body one after the other and joins their answers.
class CheckEndpoint::Decider final : public CheckListener {
 public:
  Decider(CheckEndpoint& endpoint, http::Response& response)
      : endpoint_(endpoint), response_(response) {}

  void on_request(const CheckRequest& request, bool alone) override {
    const RuleAnswer& answer =
        endpoint_.session_.decide(request.attributes, {request.cost, request.costs}, request.verb);
    if (alone) {
      response_.status = http_status(answer);
      response_.fields.append(endpoint_.fields_.lines(answer));
      if (answer.decision.reason == Reason::kInvalid) {
        response_.content_type = rejection_of(answer, response_.text).content_type;
        return;
      }
    }
    if (endpoint_.text_.size() > 0) endpoint_.text_.put(',');
    put_check_answer(endpoint_.text_, answer);
  }

 private:
  CheckEndpoint& endpoint_;
  http::Response& response_;
};

void CheckEndpoint::handle(const http::Request& request, bool may_operate,
                           http::Response& response) {
  if (request.method != "POST") {
    response.add("Allow", "POST");
    return answer_problem(response, {405, "/v1/check accepts only POST, with JSON as its body"});
  }
  text_.clear();
  Decider decider(*this, response);
  const CheckReader::Outcome outcome = reader_.read(request.body, may_operate, decider);
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
