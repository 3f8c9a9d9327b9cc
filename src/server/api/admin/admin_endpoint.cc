#include "server/api/admin/admin_endpoint.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "base/request_target.h"
#include "insight/key_sketch.h"
#include "rules/diagnostics.h"
#include "rules/rule_set.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"
#include "server/decide/trial.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/route.h"
#include "sluice/limit.h"

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

// What the administration answers.
namespace routes {
namespace {

using http::Parameter;
using pages::Call;

constexpr std::string_view kYaml = "application/yaml";
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain";
// Of the answers to a change of rules.
constexpr std::string_view kCounts = "version rules limits";
constexpr std::string_view kChange =
    "version changed rules limits active_until where differences more_differences";

constexpr Parameter kRule{.name = "rule", .about = "The name of a rule", .required = true};
constexpr Parameter kOneRule{.name = "rule", .about = "Only this rule"};
constexpr Parameter kLimit{.name = "limit", .about = "The name of one of its limits, or *"};
constexpr Parameter kOneLimit{.name = "limit", .about = "Only this limit of the rule"};
constexpr Parameter kAttributes{
    .name = "attributes",
    .about =
        "The attributes of a request by their names, such as ip=192.0.2.1; attribute.NAME for "
        "one that has the name of another parameter"};
constexpr Parameter kCount{.name = "count",
                           .about = "How many of a list, at most. Default: 1000",
                           .least = 1,
                           .most = 10'000};
constexpr Parameter kBy{.name = "by", .about = "Who asks for the change, for the history"};
constexpr Parameter kIfMatch{
    .name = "If-Match",
    .about = "Change the rules only if this is their version or their ETag",
    .is_header = true};

constexpr Parameter kOfFile[] = {{.name = "file", .about = "The file of the rules, if several"}};
constexpr Parameter kOfReplacement[] = {
    {.name = "file", .about = "* confirms that rules of several files are replaced"},
    {.name = "strict", .about = "Refuse rules with warnings", .words = "true false"},
    kIfMatch};
constexpr Parameter kOfHistory[] = {
    {.name = "version", .about = "Only this version, with its texts"}};
constexpr Parameter kOfRollback[] = {
    {.name = "version", .about = "The version to activate again", .required = true}, kBy, kIfMatch};
constexpr Parameter kOfPatch[] = {kBy, kIfMatch};
constexpr Parameter kOfKeys[] = {kRule, kLimit, kAttributes};
constexpr Parameter kOfList[] = {kOneRule,
                                 {.name = "cursor",
                                  .about = "Where the list continues: next of the answer before",
                                  .most = std::numeric_limits<std::uint64_t>::max()},
                                 {.name = "lost",
                                  .about = "Those that Redis has lost instead, within an hour",
                                  .words = "true false"},
                                 kCount};
constexpr Parameter kOfImport[] = {
    {.name = "skip_unknown",
     .about = "Leave out lines of rules that are not there",
     .words = "true false"},
    {.name = "dry_run", .about = "Only check the lines", .words = "true false"},
    {.name = "more", .about = "More lines follow in another request", .words = "true false"}};
constexpr Parameter kOfCounter[] = {
    {.name = "counter", .about = "As GET /v1/overrides shows it", .required = true}};
constexpr Parameter kOfKey[] = {kAttributes};
constexpr Parameter kOfBlocks[] = {
    {.name = "rule", .about = "A rule, to see single keys. Without one: all blocks that hold"},
    kLimit,
    kAttributes,
    kCount};
constexpr Parameter kOfNewBlocks[] = {
    kRule,
    kLimit,
    kAttributes,
    {.name = "for", .about = "How long to block, 1ms to 366d, or forever; this or `until`"},
    {.name = "until", .about = "When the block ends: an instant, such as 2027-10-01T00:00:00Z"}};
constexpr Parameter kOfSpan[] = {
    {.name = "range", .about = "The last ten minutes or day. Default: 10m", .words = "10m 1d"},
    kOneRule};
constexpr Parameter kOfStatus[] = {
    {.name = "limits", .about = "Add each rule with its limits", .words = "true false"}};
constexpr Parameter kOfTop[] = {
    {.name = "by", .about = "Default: asked", .words = "asked denied"},
    {.name = "over", .about = "Default: minute", .words = "minute hour day"},
    {.name = "count",
     .about = "Keys of each limit, at most",
     .least = 1,
     .most = insight::KeyFrame::kMostKeys},
    {.name = "n", .about = "The same as count", .least = 1, .most = insight::KeyFrame::kMostKeys},
    kOneRule,
    kOneLimit};
constexpr Parameter kOfTry[] = {
    {.name = "consume", .about = "Take this many times. Default: 0", .most = kMostTried},
    {.name = "cost", .about = "Units of each. Default: 1", .most = kMaxAmount}};
constexpr Parameter kOfUsage[] = {
    {.name = "from", .about = "An instant or a day of UTC, such as 2026-11-01"},
    {.name = "to", .about = "The same, for the end"},
    kOneRule,
    kOneLimit,
    kCount};

// Requests, and what answers them. Paths without parameters are before those with them, which find
// what is left.
constexpr std::pair<http::Route, pages::Page*> kPages[] = {
    {{.method = "GET",
      .path = "/v1/rules",
      .about = "The active rules, as they were written; of several files, a list of them",
      .parameters = kOfFile,
      .answer_types = "application/yaml application/json",
      .problems = "404"},
     pages::show_rules},
    {{.method = "PUT",
      .path = "/v1/rules",
      .about = "Check rules and activate them",
      .parameters = kOfReplacement,
      .body_type = kYaml,
      .members = kCounts,
      .problems = "409 412 415"},
     pages::replace_rules},
    {{.method = "POST",
      .path = "/v1/rules/validate",
      .about = "Only check rules",
      .body_type = kYaml,
      .members = "version rules limits differences more_differences",
      .problems = "415"},
     pages::validate_rules},
    {{.method = "POST",
      .path = "/v1/rules/reload",
      .about = "Read the files of the rules again",
      .members = "version changed rules limits",
      .problems = "409"},
     pages::reload_rules},
    {{.method = "GET",
      .path = "/v1/rules/history",
      .about = "Which rules were active before, and by whom",
      .parameters = kOfHistory,
      .problems = "404"},
     pages::show_rules_history},
    {{.method = "POST",
      .path = "/v1/rules/rollback",
      .about = "Activate earlier rules again",
      .parameters = kOfRollback,
      .members = kChange,
      .problems = "404 409 412 503"},
     pages::roll_back_rules},
    {{.method = "GET",
      .path = "/v1/keys",
      .about = "The counters that a rule would charge",
      .parameters = kOfKeys,
      .members = "rule limits",
      .problems = "404 503"},
     pages::show_keys},
    {{.method = "DELETE",
      .path = "/v1/keys",
      .about = "Reset counters",
      .parameters = kOfKeys,
      .members = "rule limits",
      .problems = "404 503"},
     pages::reset_keys},
    {{.method = "GET",
      .path = "/v1/overrides",
      .about = "A list of the overrides of keys",
      .parameters = kOfList,
      .members = "total overrides",
      .problems = "404"},
     pages::list_overrides},
    {{.method = "POST",
      .path = "/v1/overrides",
      .about = "Set many overrides: one JSON object in each line",
      .parameters = kOfImport,
      .body_type = kText,
      .members = "count ended new room",
      .problems = "404 409 503"},
     pages::import_overrides},
    {{.method = "DELETE",
      .path = "/v1/overrides",
      .about = "Remove the override of a counter, even if its rule is gone",
      .parameters = kOfCounter,
      .members = "counter",
      .problems = "404 503"},
     pages::remove_counter},
    {{.method = "GET",
      .path = "/v1/blocks",
      .about = "Whether keys are blocked, or all blocks that hold",
      .parameters = kOfBlocks,
      .problems = "404 503"},
     pages::show_blocks},
    {{.method = "PUT",
      .path = "/v1/blocks",
      .about = "Block keys",
      .parameters = kOfNewBlocks,
      .members = "rule limits",
      .problems = "404 503"},
     pages::start_blocks},
    {{.method = "DELETE",
      .path = "/v1/blocks",
      .about = "Unblock keys",
      .parameters = kOfKeys,
      .members = "rule limits",
      .problems = "404 503"},
     pages::end_blocks},
    {{.method = "GET",
      .path = "/v1/events",
      .about = "What the server does, each second, as server-sent events without an end",
      .answer_types = "text/event-stream",
      .problems = "503"},
     pages::show_events},
    {{.method = "GET",
      .path = "/v1/history",
      .about = "The last ten minutes, or the last day",
      .parameters = kOfSpan,
      .members = "range ends_ms took_ms total",
      .problems = "404"},
     pages::show_history},
    {{.method = "GET",
      .path = "/v1/quota",
      .about = "Which proxies have which parts of limits",
      .problems = "404"},
     pages::show_quota},
    {{.method = "GET",
      .path = "/v1/status",
      .about = "The state of the server",
      .parameters = kOfStatus,
      .members = "version uptime_s ready draining threads listeners store rules"},
     pages::show_status},
    {{.method = "GET",
      .path = "/v1/top",
      .about = "The most asked and most denied keys",
      .parameters = kOfTop,
      .members = "by over seconds hashed limits",
      .problems = "404"},
     pages::show_top},
    {{.method = "POST",
      .path = "/v1/try",
      .about = "What a request would get, and why, for people",
      .parameters = kOfTry,
      .body_type = kText,
      .answer_types = kText},
     pages::try_request},
    {{.method = "GET",
      .path = "/v1/usage",
      .about = "Who has spent what of budgets, by the ledger",
      .parameters = kOfUsage,
      .members = "usage total more",
      .problems = "404 409"},
     pages::show_usage},
    {{.method = "PATCH",
      .path = "/v1/rules/{rule}",
      .about = "Change numbers of one rule, its mode, or what it does while the store fails",
      .parameters = kOfPatch,
      .body_type = kJson,
      .body = pages::write_patch_schema,
      .members = kChange,
      .problems = "404 409 412 503"},
     pages::change_rule},
    {{.method = "PATCH",
      .path = "/v1/plans/{plan}",
      .about = "Change numbers of one plan",
      .parameters = kOfPatch,
      .body_type = kJson,
      .body = pages::write_patch_schema,
      .members = kChange,
      .problems = "404 409 412 503"},
     pages::change_plan},
    {{.method = "PATCH",
      .path = "/v1/prices/{model}",
      .about = "Change prices of one model",
      .parameters = kOfPatch,
      .body_type = kJson,
      .body = pages::write_prices_schema,
      .members = kChange,
      .problems = "404 409 412 503"},
     pages::change_prices},
    {{.method = "GET",
      .path = "/v1/overrides/{rule}/{limit}",
      .about = "The override of a key",
      .parameters = kOfKey,
      .members = "counter",
      .problems = "404"},
     pages::show_override},
    {{.method = "PUT",
      .path = "/v1/overrides/{rule}/{limit}",
      .about = "Set the override of a key",
      .body_type = kJson,
      .body = pages::write_override_schema,
      .members = "counter",
      .problems = "404 409 503"},
     pages::set_override},
    {{.method = "DELETE",
      .path = "/v1/overrides/{rule}/{limit}",
      .about = "Remove the override of a key",
      .parameters = kOfKey,
      .members = "counter",
      .problems = "404 503"},
     pages::remove_override},
};

// Returns which parameter of the query is repeated, or is none of the route, or an empty text: a
// mistaken name would answer for all rules, or change what was not meant.
std::string find_unknown(const Call& call) {
  std::vector<std::string_view> names;
  bool has_attributes = false;
  for (const Parameter& parameter : call.route.parameters) {
    has_attributes |= parameter.name == kAttributes.name;
    if (!parameter.is_header) names.push_back(parameter.name);
  }
  const RuleSet active = call.admin.rules.current();
  std::set<std::pair<bool, std::string>> seen;  // whether it is a parameter, and its name
  std::string_view query = call.query;
  while (!query.empty()) {
    const std::string_view pair = base::take_until(query, '&');
    if (pair.empty()) continue;
    const std::string name = base::decoded(pair.substr(0, pair.find('=')));
    const bool is_parameter = std::ranges::find(names, name) != names.end();
    std::string_view attribute = name;
    if (!is_parameter && attribute.starts_with(pages::kAttributePrefix)) {
      attribute.remove_prefix(pages::kAttributePrefix.size());
    }
    if (!seen.emplace(is_parameter, attribute).second) {
      return base::in_quotes(name) + " is repeated; expected it once";
    }
    if (is_parameter) continue;
    if (has_attributes && is_read(active, attribute)) continue;
    std::vector<std::string_view> similar = names;
    const auto& read = active.impl().attributes.names();
    if (has_attributes) similar.assign(read.begin(), read.end());
    return base::in_quotes(name) + " is no parameter of " + std::string(call.route.method) + " " +
           std::string(call.route.path) +
           (has_attributes ? ", and no rule reads such an attribute" : "") + "; expected " +
           (names.empty() ? "no parameters" : rules::either(names)) +
           rules::did_you_mean(name, similar);
  }
  return {};
}

std::optional<std::uint64_t> number_from(std::string_view text, const Parameter& parameter) {
  const auto number = base::read_number<std::uint64_t>(text);
  if (!number || *number < parameter.least || *number > parameter.most) return std::nullopt;
  return number;
}

// Returns which parameter has none of its words, or is no number in its range, "'dry_run' is 'x';
// expected true or false", or an empty text.
std::string find_wrong_value(const Call& call) {
  for (const Parameter& parameter : call.route.parameters) {
    if (parameter.words.empty() && parameter.most == 0) continue;
    const auto given = call.parameter(parameter.name);
    if (!given || http::has_word(parameter.words, *given)) continue;
    if (parameter.most > 0 && number_from(*given, parameter)) continue;
    return base::in_quotes(parameter.name) + " is " + base::in_quotes(*given) + "; expected " +
           (parameter.most == 0 ? rules::either(http::words_of(parameter.words))
                                : "a whole number from " + std::to_string(parameter.least) +
                                      " to " + std::to_string(parameter.most));
  }
  return {};
}

// Returns the rest of the path behind that of the route, or nothing if it is of another route.
std::optional<std::string_view> rest_of(std::string_view path, const http::Route& route) {
  const std::string_view prefix = route.prefix();
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  return path.empty() != route.names_one() ? std::optional(path) : std::nullopt;
}

// Returns the methods of a path, "GET, HEAD, PUT", or an empty text if there is no such path.
std::string allowed_at(std::string_view path) {
  std::string methods;
  bool names_one = false;  // of the routes that were found
  for (const auto& [route, answer] : kPages) {
    if (!rest_of(path, route) || (!methods.empty() && route.names_one() != names_one)) continue;
    names_one = route.names_one();
    methods.append(methods.empty() ? "" : ", ").append(route.method);
    if (route.method == "GET") methods.append(", HEAD");
  }
  return methods;
}

// "/v1/rules, /v1/rules/validate, ... or /v1/overrides/RULE/LIMIT"
std::string list_of_paths() {
  std::vector<std::string> paths;
  for (const auto& [route, answer] : kPages) {
    std::string path;
    for (const char c : route.path) {
      if (c == '{' || c == '}') continue;
      path += path.size() < route.prefix().size() || c < 'a' ? c : static_cast<char>(c - 0x20);
    }
    if (paths.empty() || paths.back() != path) paths.push_back(std::move(path));
  }
  return rules::either(paths);
}

}  // namespace
}  // namespace routes

namespace {

void answer_no_route(std::string_view path, const http::Request& request,
                     http::Response& response) {
  const std::string allowed = routes::allowed_at(path);
  if (allowed.empty()) {
    return pages::answer(response, {404, "unknown path; expected " + routes::list_of_paths()});
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
  const base::RequestTarget target = base::split_target(request.target);
  const std::string_view method = request.method == "HEAD" ? "GET" : request.method;
  for (const auto& [route, answer] : routes::kPages) {
    const auto name = route.method == method ? routes::rest_of(target.path, route) : std::nullopt;
    if (!name) continue;
    const pages::Call call{*this, request, target.query, response, route, *name};
    std::string wrong = routes::find_unknown(call);
    if (wrong.empty()) wrong = routes::find_wrong_value(call);
    return wrong.empty() ? answer(call) : pages::answer(response, {400, wrong});
  }
  answer_no_route(target.path, request, response);
}

std::vector<http::Route> AdminEndpoint::routes() {
  std::vector<http::Route> all;
  for (const auto& [route, answer] : routes::kPages) all.push_back(route);
  return all;
}

namespace pages {

std::optional<std::string> Call::parameter(std::string_view of) const {
  assert(std::any_of(route.parameters.begin(), route.parameters.end(),
                     [&](const http::Parameter& known) { return known.name == of; }));
  Buffers buffers;
  const auto found = base::find_query(query, of, buffers);
  return found ? std::optional(std::string(*found)) : std::nullopt;
}

std::uint64_t Call::number(std::string_view of, std::uint64_t otherwise) const {
  if (const auto given = parameter(of)) {
    std::from_chars(given->data(), given->data() + given->size(), otherwise);
  }
  return otherwise;
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

void answer(const Call& call, int status, std::string_view detail) {
  answer(call.response, {status, detail});
}

std::nullopt_t refuse(const Call& call, int status, std::string_view detail) {
  answer(call, status, detail);
  return std::nullopt;
}

std::string_view expected_instant(std::string_view text, std::string_view otherwise) {
  Instant at;
  const bool is_out_of_range = base::read_iso8601(text, at) == base::TimestampFault::kOutOfRange;
  return is_out_of_range ? "expected an instant from 1970 to 2112" : otherwise;
}

std::vector<std::string_view> lines_of(std::string_view body) {
  std::vector<std::string_view> lines;
  while (!body.empty()) {
    lines.push_back(base::take_until(body, '\n'));
    if (lines.back().ends_with('\r')) lines.back().remove_suffix(1);
  }
  return lines;
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
