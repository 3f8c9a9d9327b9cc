#include "server/api/envoy/json_endpoint.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "limiter/reason_report.h"
#include "rules/diagnostics.h"
#include "server/api/envoy/json_syntax.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

namespace rls = ::envoy::service::ratelimit::v3;
namespace util = ::google::protobuf::util;

constexpr std::string_view kJson = "application/json";

std::string read_message(std::string_view json, std::string& message) {
  if (const std::string mistake = find_json_mistake(json); !mistake.empty()) {
    return "the body is not valid: " + mistake +
           "; expected a RateLimitRequest: {\"domain\": \"...\", \"descriptors\": [...]}";
  }
  rls::RateLimitRequest request;
  const auto read = util::JsonStringToMessage({json.data(), json.size()}, &request);
  if (!read.ok()) {
    const std::string why = read.message().ToString();
    return "the body is not a RateLimitRequest in JSON: " + rules::in_quotes(why);
  }
  request.SerializeToString(&message);
  return {};
}

}  // namespace

void JsonEndpoint::handle(const http::Request& request, bool may_operate,
                          http::Response& response) {
  if (request.method != "POST") {
    response.add("Allow", "POST");
    return answer_problem(
        response, {405, "/json accepts only POST, with a RateLimitRequest in JSON as its body"});
  }
  const google::protobuf::LogSilencer quiet;  // no log lines about a client's input
  if (const std::string error = read_message(request.body, message_); !error.empty()) {
    return answer_problem(response, {400, error});
  }
  buffers_.clear();
  const auto trace = find_header(request.fields, "traceparent", buffers_).value_or("");
  const RlsStatus status = service_.call(message_, may_operate, reply_, trace);
  if (status.forbidden) return answer_problem(response, {403, status.message});
  if (status.reason != Reason::kOk) {
    return answer_problem(response, {report_of(status.reason).http, status.message});
  }
  rls::RateLimitResponse answer;
  if (!answer.ParseFromString(reply_) || !util::MessageToJsonString(answer, &response.text).ok()) {
    response.text.clear();
    return answer_problem(response, {500, "the response cannot be written as JSON"});
  }
  response.answer_text(answer.overall_code() == rls::RateLimitResponse::OVER_LIMIT ? 429 : 200,
                       kJson);
}

}  // namespace sluice::server
