#include "server/api/envoy/rls_service.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/json_reader.h"
#include "base/quoted.h"
#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "limiter/reason_report.h"
#include "rules/diagnostics.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

// The names in the open objects.
using Names = std::vector<std::set<std::string>>;
using Member = base::JsonMember<Names>;

// As in Protobuf, names differ neither in case nor in underscores.
std::string plain(std::string_view name) {
  std::string one = base::lower_case(name);
  std::erase(one, '_');
  return one;
}

bool add_name(Names& names, const base::JsonValue& value, base::JsonProblem& problem) {
  const bool is_member = value.name.data() != nullptr;
  if (is_member && !names.back().insert(plain(value.name)).second) {
    return problem.is("the member " + base::in_quotes(value.name) + " is repeated", {});
  }
  if (value.kind == base::kJsonObject) names.emplace_back();
  return true;
}

bool end_names(Names& names, base::JsonProblem&) {
  names.pop_back();
  return true;
}

// Any value: a member of any object, or an element of any array.
extern const Member kAny[1];
// NOLINTNEXTLINE(cppcoreguidelines-interfaces-global-init): it keeps the address only
const base::JsonObject<Names> kObject(kAny, end_names, true);
const Member kAny[1] = {
    {.kinds = base::kJsonAny, .set = add_name, .object = &kObject, .each = kAny}};

}  // namespace

std::string find_json_mistake(std::string_view text) {
  Names names;
  base::JsonProblem problem;
  if (base::JsonReader<Names>().read(text, kAny[0], names, problem)) return {};
  if (problem.kind == base::JsonProblem::Kind::kOther) return problem.what;
  return "it is not valid JSON in UTF-8 (" + problem.what + ")";
}

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
    return "the body is not a RateLimitRequest in JSON: " + base::in_quotes(why);
  }
  request.SerializeToString(&message);
  return {};
}

}  // namespace

void answer_json(RlsService& service, const http::Request& request, bool may_operate,
                 http::Response& response) {
  const google::protobuf::LogSilencer quiet;  // no log lines about a client's input
  std::string message, reply;
  if (const std::string error = read_message(request.body, message); !error.empty()) {
    return refuse_request(response, {400, error});
  }
  Buffers buffers;
  const auto trace = find_header(request.fields, "traceparent", buffers).value_or("");
  const RlsStatus status = service.call(message, may_operate, reply, trace);
  if (status.reason != Reason::kOk) {
    const Problem problem{status.forbidden ? 403 : report_of(status.reason).http, status.message};
    return status.refused ? refuse_request(response, problem) : answer_problem(response, problem);
  }
  rls::RateLimitResponse answer;
  if (!answer.ParseFromString(reply) || !util::MessageToJsonString(answer, &response.text).ok()) {
    response.text.clear();
    return answer_problem(response, {500, "the response cannot be written as JSON"});
  }
  response.answer_text(answer.overall_code() == rls::RateLimitResponse::OVER_LIMIT ? 429 : 200,
                       kJson);
}

}  // namespace sluice::server
