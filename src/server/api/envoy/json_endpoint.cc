#include "server/api/envoy/json_endpoint.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <set>
#include <vector>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "limiter/reason_report.h"
#include "rules/diagnostics.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {
namespace {

namespace json = boost::json;

// basic_parser prescribes these names. Reading ends if one of the members returns false.
class Handler {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    objects_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, json::error_code&) {
    objects_.pop_back();
    return true;
  }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view text, std::size_t, json::error_code&) {
    name_.append(text.data(), text.size());
    return true;
  }
  bool on_key(json::string_view text, std::size_t, json::error_code& error) {
    name_.append(text.data(), text.size());
    std::string one = name_;
    std::erase(one, '_');
    std::transform(one.begin(), one.end(), one.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (!objects_.back().insert(std::move(one)).second) {
      twice = name_;
      error = json::error::extra_data;  // ends the reading; never reported
      return false;
    }
    name_.clear();
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code&) { return true; }
  bool on_double(double, json::string_view, json::error_code&) { return true; }
  bool on_bool(bool, json::error_code&) { return true; }
  bool on_null(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

  std::string twice;  // the name of a repeated member

 private:
  std::vector<std::set<std::string>> objects_;  // the names in the open objects
  std::string name_;
};

}  // namespace

std::string find_json_mistake(std::string_view text) {
  json::basic_parser<Handler> parser{json::parse_options{}};
  json::error_code error;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!parser.handler().twice.empty()) {
    return "the member " + rules::in_quotes(parser.handler().twice) + " is repeated";
  }
  if (!error && read < text.size()) error = json::error::extra_data;
  return error ? "it is not valid JSON in UTF-8 (" + error.message() + ")" : std::string();
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
    return "the body is not a RateLimitRequest in JSON: " + rules::in_quotes(why);
  }
  request.SerializeToString(&message);
  return {};
}

}  // namespace

void answer_json(RlsService& service, const http::Request& request, bool may_operate,
                 http::Response& response) {
  if (request.method != "POST") {
    response.add("Allow", "POST");
    return answer_problem(
        response, {405, "/json accepts only POST, with a RateLimitRequest in JSON as its body"});
  }
  const google::protobuf::LogSilencer quiet;  // no log lines about a client's input
  std::string message, reply;
  if (const std::string error = read_message(request.body, message); !error.empty()) {
    return answer_problem(response, {400, error});
  }
  Buffers buffers;
  const auto trace = find_header(request.fields, "traceparent", buffers).value_or("");
  const RlsStatus status = service.call(message, may_operate, reply, trace);
  if (status.forbidden) return answer_problem(response, {403, status.message});
  if (status.reason != Reason::kOk) {
    return answer_problem(response, {report_of(status.reason).http, status.message});
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
