#include "server/api/check/permit_endpoint.h"

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "limiter/reason_report.h"
#include "server/protocol/http/problem.h"
#include "sluice/permit.h"

namespace sluice::server {
namespace {

constexpr std::string_view kBody = "expected {\"permit\":\"TEXT\"}, with the text of /v1/check";

// Returns the text of the permit, or null after a problem was answered.
const boost::json::string* permit_in(const boost::json::value& value, http::Response& response) {
  const boost::json::object* const object = value.if_object();
  if (object == nullptr) {
    answer_problem(response, {400, "the body is not a JSON object; " + std::string(kBody)});
    return nullptr;
  }
  const boost::json::value* const permit = object->if_contains("permit");
  if (permit == nullptr || !permit->is_string() || object->size() != 1) {
    answer_problem(response, {400, "the body has no permit, or more; " + std::string(kBody)});
    return nullptr;
  }
  return &permit->get_string();
}

}  // namespace

void answer_permit(PermitAction action, Session& session, const http::Request& request,
                   http::Response& response) {
  const bool releases = action == PermitAction::kRelease;
  if (request.method != "POST") {
    response.add("Allow", "POST");
    return answer_problem(response, {405, std::string(releases ? "/v1/release" : "/v1/extend") +
                                              " accepts only POST, with JSON as its body"});
  }
  boost::json::error_code error;
  const boost::json::value value =
      boost::json::parse({request.body.data(), request.body.size()}, error);
  if (error) {
    return answer_problem(response, {400, "the body is not valid JSON (" + error.message() + "); " +
                                              std::string(kBody)});
  }
  const boost::json::string* const found = permit_in(value, response);
  if (found == nullptr) return;
  const std::string_view permit(found->data(), found->size());
  if (const auto text = PermitText::parse(permit); !text) {
    return answer_problem(response, {400, "at permit: " + text.error()});
  }
  const Decision decision = releases ? session.release(permit) : session.extend(permit);
  if (decision.allowed()) {
    response.text = R"({"outcome":"allowed","reason":"ok"})";
    return response.answer_text(200, "application/json");
  }
  const ReasonReport& report = report_of(decision.reason);
  answer_problem(response, {report.http, std::string(report.detail)});
}

}  // namespace sluice::server
