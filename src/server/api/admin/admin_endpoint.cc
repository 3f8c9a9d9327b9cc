#include "server/api/admin/admin_endpoint.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/quoted.h"
#include "server/api/admin/pages.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server {

Expected<AdminToken> AdminToken::from(SecretSource source) {
  if (!source.file.empty() && !source.variable.empty()) {
    return Unexpected{"both a token file and a token variable are given; expected one of them"};
  }
  AdminToken token;
  token.source_ = std::move(source);
  if (auto read = token.reload(); !read) return Unexpected{std::move(read.error())};
  return token;
}

Expected<bool> AdminToken::reload() {
  if (!source_.is_set()) return false;
  auto read = read_token(source_);
  if (!read) return Unexpected{std::move(read.error())};
  warning_ = find_weakness("the administration token", source_, *read);
  return std::exchange(token_, *read) != *read;
}

bool AdminToken::matches(std::string_view presented) const noexcept {
  return is_same_secret(presented, token_);
}

std::optional<Problem> check_token(const http::Request& request, const AdminToken& token) {
  if (!token.is_set() || request.certificate_role >= Role::kAdmin) return std::nullopt;
  Buffers buffers;
  const std::string_view field =
      find_header(request.fields, "authorization", buffers).value_or(std::string_view());
  const std::string_view presented = bearer_token(field);
  if (presented.empty()) {
    return Problem{401, "a token is required; expected the header Authorization: Bearer TOKEN"};
  }
  if (token.matches(presented)) return std::nullopt;
  return Problem{401, "the token is not the one that is configured"};
}

namespace {

struct Route {
  std::string_view path;
  std::string_view method;
  void (*page)(const pages::Call&);
};

constexpr std::string_view kOverride = "/v1/overrides/";
// Paths of one rule, plan or model, "/v1/rules/NAME".
struct PatchRoute {
  std::string_view kind;
  void (*page)(const pages::Call&);

  bool names_one(std::string_view path) const {
    return path.starts_with(kind) && path.size() > kind.size();
  }
};

constexpr std::array<PatchRoute, 3> kPatchRoutes{{{"/v1/rules/", pages::change_rule},
                                                  {"/v1/plans/", pages::change_plan},
                                                  {"/v1/prices/", pages::change_prices}}};

constexpr std::array<Route, 21> kRoutes{{{"/v1/rules", "GET", pages::show_rules},
                                         {"/v1/rules", "PUT", pages::replace_rules},
                                         {"/v1/rules/validate", "POST", pages::validate_rules},
                                         {"/v1/rules/reload", "POST", pages::reload_rules},
                                         {"/v1/rules/history", "GET", pages::show_rules_history},
                                         {"/v1/rules/rollback", "POST", pages::roll_back_rules},
                                         {"/v1/keys", "GET", pages::show_keys},
                                         {"/v1/keys", "DELETE", pages::reset_keys},
                                         {"/v1/overrides", "GET", pages::list_overrides},
                                         {"/v1/overrides", "POST", pages::import_overrides},
                                         {"/v1/overrides", "DELETE", pages::remove_counter},
                                         {"/v1/blocks", "GET", pages::show_blocks},
                                         {"/v1/blocks", "PUT", pages::start_blocks},
                                         {"/v1/blocks", "DELETE", pages::end_blocks},
                                         {"/v1/events", "GET", pages::show_events},
                                         {"/v1/history", "GET", pages::show_history},
                                         {"/v1/quota", "GET", pages::show_quota},
                                         {"/v1/status", "GET", pages::show_status},
                                         {"/v1/top", "GET", pages::show_top},
                                         {"/v1/try", "POST", pages::try_request},
                                         {"/v1/usage", "GET", pages::show_usage}}};

// Returns the methods of a path, "GET, HEAD, PUT", or an empty text if there is no such path.
std::string allowed_at(std::string_view path) {
  if (path.starts_with(kOverride)) return "GET, HEAD, PUT, DELETE";
  std::string methods;
  for (const Route& route : kRoutes) {
    if (route.path != path) continue;
    methods.append(methods.empty() ? "" : ", ").append(route.method);
    if (route.method == "GET") methods.append(", HEAD");
  }
  for (const PatchRoute& route : kPatchRoutes) {
    if (methods.empty() && route.names_one(path)) methods = "PATCH";
  }
  return methods;
}

void answer_no_route(std::string_view path, const http::Request& request,
                     http::Response& response) {
  const std::string allowed = allowed_at(path);
  if (allowed.empty()) {
    return pages::answer(response,
                         {404,
                          "unknown path; expected /v1/rules, "
                          "/v1/rules/RULE, /v1/rules/validate, /v1/rules/reload, "
                          "/v1/rules/history, /v1/rules/rollback, /v1/plans/PLAN, "
                          "/v1/prices/MODEL, /v1/keys, "
                          "/v1/overrides, /v1/overrides/RULE/LIMIT, /v1/blocks, /v1/events, "
                          "/v1/history, /v1/quota, /v1/status, /v1/top, /v1/try or /v1/usage"});
  }
  response.add("Allow", allowed);
  const std::string detail =
      std::string(request.method) + " is not for " + std::string(path) + "; expected " + allowed;
  pages::answer(response, {405, detail});
}

}  // namespace

void AdminEndpoint::handle(const http::Request& request, http::Response& response) const {
  response.add("Cache-Control", "no-store");
  if (const auto refusal = check_token(request, token)) {
    response.add("WWW-Authenticate", "Bearer realm=\"sluice\"");
    return pages::answer(response, *refusal);
  }
  const RequestTarget target = split_target(request.target);
  const std::string_view method = request.method == "HEAD" ? "GET" : request.method;
  pages::Call call{*this, request, target.query, response};
  for (const Route& route : kRoutes) {
    if (route.path == target.path && route.method == method) return route.page(call);
  }
  for (const PatchRoute& route : kPatchRoutes) {
    if (method != "PATCH" || !route.names_one(target.path)) continue;
    call.name = target.path.substr(route.kind.size());
    return route.page(call);
  }
  if (target.path.starts_with(kOverride)) {
    call.name = target.path.substr(kOverride.size());
    if (method == "GET") return pages::show_override(call);
    if (method == "PUT") return pages::set_override(call);
    if (method == "DELETE") return pages::remove_override(call);
  }
  answer_no_route(target.path, request, response);
}

namespace pages {

std::optional<std::string_view> Call::parameter(std::string_view of, Buffers& buffers) const {
  return find_query(query, of, buffers);
}

void Call::done(std::string_view what) const {
  if (admin.done) admin.done(what, request.peer);
}

void answer(http::Response& response, int status, const JsonWriter& json) {
  response.text = json.view();
  response.text.push_back('\n');
  response.answer_text(status, "application/json");
}

void answer(http::Response& response, const Problem& problem, std::string_view members) {
  const std::string detail = base::as_utf8(problem.detail);
  Problem clean = problem;
  clean.detail = detail;
  response.text.clear();
  append_problem(response.text, clean, members);
  response.text.push_back('\n');
  response.answer_text(problem.status, kProblemType);
}

void write_errors(JsonWriter& json, const std::vector<RuleError>& errors) {
  json.begin_array();
  for (const RuleError& error : errors) {
    json.begin_object()
        .member("file", error.file)
        .member("line", static_cast<std::uint64_t>(error.line))
        .member("column", static_cast<std::uint64_t>(error.column))
        .member("what", error.what)
        .member("expected", error.expected)
        .end_object();
  }
  json.end_array();
}

}  // namespace pages
}  // namespace sluice::server
