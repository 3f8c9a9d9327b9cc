#include "server/runtime/openapi.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "server/api/admin/admin_endpoint.h"
#include "server/api/check/check_endpoint.h"
#include "server/protocol/http/problem.h"
#include "server/protocol/http/route.h"
#include "server/runtime/front_ends.h"

namespace sluice::server {
namespace {

using base::JsonWriter;
using http::Parameter;

constexpr std::string_view kLines = "text/plain";  // there may be none
constexpr std::string_view kMethods = "get put post delete patch";
// Of every request, by the way in which it was sent.
constexpr std::string_view kProblems = "400 408 431";

// A greater maximum is none.
constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

constexpr std::pair<std::string_view, std::string_view> kFields[] = {
    {"RateLimit-Policy", "The limits that applied (draft-ietf-httpapi-ratelimit-headers)"},
    {"RateLimit", "What they have left, and for how many seconds no more can be used"},
    {"X-RateLimit-Limit", "The capacity of the tightest limit"},
    {"X-RateLimit-Remaining", "What it has left"},
    {"X-RateLimit-Reset", "Seconds until it is fully replenished"},
    {"Retry-After", "Seconds until a denied request would pass"}};

using http::has_word;
using http::words_of;

bool answers(const http::Route& route, std::string_view method) {
  const auto is_same = [](char a, char b) { return (a | 0x20) == b; };
  if (route.method.empty()) return method == "get";
  return std::ranges::equal(route.method, method, is_same);
}

std::vector<http::Route> all_routes() {
  std::vector<http::Route> all = public_routes();
  for (const http::Route& route : AdminEndpoint::routes()) {
    all.push_back(route);
    all.back().is_admin = true;
  }
  return all;
}

void write_reference(JsonWriter& json, std::string_view to) {
  json.begin_object().member("$ref", "#/components/" + std::string(to)).end_object();
}

void write_text(JsonWriter& json) { json.begin_object().member("type", "string").end_object(); }

void write_value(JsonWriter& json, const Parameter& of) {
  json.begin_object();
  if (of.name == "attributes") {
    json.member("type", "object").member("additionalProperties", true).end_object();
    return;
  }
  json.member("type", of.most > 0 ? "integer" : "string");
  if (of.most > 0) json.member("minimum", of.least);
  if (of.most > 0 && of.most < kAnyNumber) json.member("maximum", of.most);
  if (!of.words.empty()) json.array("enum", words_of(of.words));
  json.end_object();
}

void write_parameters(JsonWriter& json, const http::Route& route) {
  json.key("parameters").begin_array();
  for (std::string_view rest = route.path; rest.find('{') != rest.npos;) {
    rest.remove_prefix(rest.find('{') + 1);
    json.begin_object().member("name", rest.substr(0, rest.find('}')));
    json.member("in", "path").member("required", true).key("schema");
    json.begin_object().member("type", "string").member("minLength", std::uint64_t{1});
    json.end_object().end_object();
  }
  for (const Parameter& one : route.parameters) {
    json.begin_object().member("name", one.name).member("in", one.is_header ? "header" : "query");
    json.member("description", one.about).member("required", one.required);
    write_value(json.key("schema"), one);
    json.end_object();
  }
  json.end_array();
}

// Writes the schema of an object with the members of the route.
void write_object(JsonWriter& json, const http::Route& route) {
  json.begin_object().member("type", "object");
  if (!route.members.empty()) json.array("required", words_of(route.members));
  json.end_object();
}

void write_fields(JsonWriter& json) {
  json.key("headers").begin_object();
  for (const auto& [name, about] : kFields) {
    write_reference(json.key(name), "headers/" + std::string(name));
  }
  json.end_object();
}

void write_response(JsonWriter& json, const http::Route& route, const std::string& status,
                    bool is_answer, bool is_problem) {
  json.key(status);
  if (!is_answer) return write_reference(json, "responses/Problem");
  if (route.decides) return write_reference(json, "responses/Decision");
  json.begin_object().member("description", reason_phrase(std::stoi(status)));
  if (route.has_limits) write_fields(json);
  const auto types = words_of(route.answer_types);
  if (!types.empty()) json.key("content").begin_object();
  for (const std::string_view type : types) {
    json.key(type).begin_object().key("schema");
    if (type == "application/json") {
      write_object(json, route);
    } else if (type == "application/yaml") {
      json.value(true);
    } else {
      write_text(json);
    }
    json.end_object();
  }
  if (is_problem && !types.empty()) {
    write_reference(json.key(kProblemType).begin_object().key("schema"), "schemas/Problem");
    json.end_object();
  }
  if (!types.empty()) json.end_object();
  json.end_object();
}

void write_responses(JsonWriter& json, const http::Route& route) {
  std::string problems(kProblems);
  if (!route.problems.empty()) problems.append(" ").append(route.problems);
  if (!route.body_type.empty()) problems += " 413";
  if (route.takes_token) problems += " 401";
  if (route.may_be_refused) problems += " 403";
  std::vector<std::string> all;
  for (const std::string_view list : {route.answers, std::string_view(problems)}) {
    for (const std::string_view one : words_of(list)) all.emplace_back(one);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  json.key("responses").begin_object();
  for (const std::string& status : all) {
    write_response(json, route, status, has_word(route.answers, status),
                   has_word(problems, status));
  }
  json.end_object();
}

void write_operation(JsonWriter& json, std::string_view method, const http::Route& route) {
  std::string id(method);
  for (const char c : route.path) {
    if (c == '}') continue;
    id += c == '/' || c == '{' ? '_' : c;
  }
  id.erase(std::unique(id.begin(), id.end(), [](char a, char b) { return a == '_' && a == b; }),
           id.end());
  json.key(method).begin_object().member("operationId", id).member("summary", route.about);
  json.key("tags").begin_array().value(route.is_admin ? "administration" : "decisions").end_array();
  if (route.takes_token) {
    json.key("security").begin_array().begin_object().end_object();
    json.begin_object().key("token").begin_array().end_array().end_object().end_array();
  }
  write_parameters(json, route);
  if (!route.body_type.empty()) {
    json.key("requestBody").begin_object().member("required", route.body_type != kLines);
    json.key("content").begin_object().key(route.body_type).begin_object().key("schema");
    route.body != nullptr ? route.body(json) : write_text(json);
    json.end_object().end_object().end_object();
  }
  write_responses(json, route);
  json.end_object();
}

void write_server(JsonWriter& json, std::string_view url, std::string_view about) {
  json.key("servers").begin_array().begin_object().member("url", url);
  json.member("description", about).end_object().end_array();
}

void write_paths(JsonWriter& json) {
  const std::vector<http::Route> all = all_routes();
  json.key("paths").begin_object();
  for (const http::Route& first : all) {
    const std::string_view path = first.path;
    const auto is_same = [&](const http::Route& other) { return other.path == path; };
    if (&*std::ranges::find_if(all, is_same) != &first) continue;
    json.key(path).begin_object();
    if (first.is_admin) {
      write_server(json, "http://127.0.0.1:6070", "The administration (listen.admin)");
    }
    for (const std::string_view method : words_of(kMethods)) {
      // Of two routes, the one without a query describes the method.
      const http::Route* found = nullptr;
      for (const http::Route& one : all) {
        const bool is_better = found == nullptr || found->needs_query;
        if (is_same(one) && answers(one, method) && is_better) found = &one;
      }
      if (found != nullptr) write_operation(json, method, *found);
    }
    json.end_object();
  }
  json.end_object();
}

void write_components(JsonWriter& json) {
  json.key("components").begin_object().key("schemas").begin_object();
  write_answer_schema(json.key("Decision"));
  json.key("Problem").begin_object().member("type", "object");
  json.member("description", "Problem Details (RFC 9457)").key("properties").begin_object();
  for (const std::string_view name : {"type", "title", "detail"}) write_text(json.key(name));
  json.key("status").begin_object().member("type", "integer").end_object().end_object();
  json.array("required", std::to_array<std::string_view>({"type", "title", "status"}));
  json.end_object().end_object();

  const auto write_content = [&](std::string_view type, std::string_view schema) {
    write_reference(json.key(type).begin_object().key("schema"), schema);
    json.end_object();
  };
  json.key("responses").begin_object().key("Problem").begin_object();
  json.member("description", "An error: detail says what is wrong and what is expected");
  json.key("content").begin_object();
  write_content(kProblemType, "schemas/Problem");
  json.end_object().end_object().key("Decision").begin_object();
  json.member("description", "A decision, or an error");
  write_fields(json);
  json.key("content").begin_object();
  write_content("application/json", "schemas/Decision");
  write_content(kProblemType, "schemas/Problem");
  json.end_object().end_object().end_object();

  json.key("headers").begin_object();
  for (const auto& [name, about] : kFields) {
    write_text(json.key(name).begin_object().member("description", about).key("schema"));
    json.end_object();
  }
  json.end_object().key("securitySchemes").begin_object().key("token").begin_object();
  json.member("type", "http").member("scheme", "bearer").end_object().end_object().end_object();
}

}  // namespace

std::string openapi() {
  JsonWriter json;
  json.begin_object().member("openapi", "3.1.0").key("info").begin_object();
  json.member("title", "Sluice").member("version", SLUICE_VERSION);
  json.member(
      "description",
      "The HTTP front end (docs/http.md) and the administration (docs/admin.md). A rule may "
      "deny with another status than 429, by its `reject`. GET also answers HEAD.");
  json.key("license").begin_object().member("name", "Apache 2.0");
  json.member("identifier", "Apache-2.0").end_object().end_object();
  write_server(json, "http://127.0.0.1:8080", "The HTTP front end (listen.http)");
  write_paths(json);
  write_components(json);
  json.end_object();
  return base::indented(json.view());
}

}  // namespace sluice::server
