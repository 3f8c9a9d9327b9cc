#include "server/api/check/check_endpoint.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_reader.h"
#include "base/json_schema.h"
#include "core/decision.h"
#include "limiter/answer.h"
#include "limiter/reason_report.h"
#include "rules/diagnostics.h"
#include "server/decide/rejection.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/problem.h"
#include "sluice/permit.h"

namespace sluice::server {
namespace {

// Rounded up, so that waiting this long is always enough.
std::uint64_t milliseconds(Duration duration) noexcept {
  const auto ticks = static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0));
  return (ticks + 999) / 1000;
}

void put_waits(TextBuffer& out, const Decision& decision) {
  if (!decision.allowed() && decision.retry_after) {
    out.put(",\"retry_after_ms\":");
    out.put_number(milliseconds(*decision.retry_after));
  }
  if (decision.allowed() && decision.delay) {
    out.put(",\"delay_ms\":");
    out.put_number(milliseconds(*decision.delay));
  }
}

// Writes what a limit has left, if it was read, and its waits.
void put_numbers(TextBuffer& out, const Limit& limit, const Decision& decision) {
  out.put(",\"limit\":");
  out.put_number(limit.capacity());
  if (has_numbers(decision)) {
    out.put(",\"remaining\":");
    out.put_number(decision.remaining);
  }
  if (has_numbers(decision) && is_ever_full(limit, decision)) {
    out.put(",\"reset_after_ms\":");
    out.put_number(milliseconds(decision.reset_after));
  }
  put_waits(out, decision);
}

void put_limit(TextBuffer& out, const LimitAnswer& limit, const Rule* deciding) {
  const Rule& rule = *limit.rule;
  out.put("{\"name\":");
  out.put_json(limit.limit->name);
  if (deciding == nullptr || &rule != deciding) {
    out.put(",\"rule\":");
    out.put_json(rule.name);
  }
  if (rule.mode == RuleMode::kShadow) out.put(",\"shadow\":true");
  if (limit.decision.passed_over) out.put(",\"passed_over\":true");
  put_numbers(out, limit.numbers, limit.decision);
  if (limit.limit->warn_percent > 0) {
    out.put(",\"near\":");
    out.put_text(limit.near ? "true" : "false");
  }
  out.put('}');
}

// Ends the limits that applied, and begins the names of those that did not.
void put_skipped(TextBuffer& out, const RuleAnswer& answer) {
  out.put("],\"skipped\":[");
  for (const RuleAnswer::Skipped& one : answer.skipped) {
    if (&one != answer.skipped.data()) out.put(',');
    out.put_json(one.rule == answer.rule ? one.limit->name
                                         : rules::full_name(one.rule->name, one.limit->name));
  }
}

// Writes that a rule is degraded, and its headers.
void put_degraded(TextBuffer& out, const RuleAnswer& answer) {
  out.put(",\"degraded\":true,\"headers\":{");
  bool is_first = true;
  for (const RejectHeader* header : degrade_headers(answer)) {
    if (!std::exchange(is_first, false)) out.put(',');
    out.put_json(header->name);
    out.put(':');
    out.put_json(header->value);
  }
  out.put('}');
}

// Writes what budgets say about the id of a request.
void put_id(TextBuffer& out, const Decision& decision, std::string_view id) {
  out.put(",\"id\":");
  out.put_json(id);
  if (decision.repeated) out.put(",\"repeated\":true");
  if (decision.late) out.put(",\"late\":true");
  if (decision.ends_after <= Duration{0}) return;
  out.put(",\"ends_after_ms\":");
  out.put_number(static_cast<std::uint64_t>(decision.ends_after.count()) / 1000);
}

constexpr std::string_view kNoBudget =
    "no budget applies to the request, so nothing was held under the id and nothing has changed";

// Writes the members before `limits`.
void put_head(TextBuffer& out, const Decision& decision, const Rule* rule, bool with_taken,
              std::string_view id, std::string_view permit) {
  out.put("{\"outcome\":\"");
  out.put_text(core::wire_outcome(decision.outcome));
  out.put("\",\"rule\":");
  if (rule != nullptr) {
    out.put_json(rule->name);
  } else {
    out.put("null");
  }
  out.put(",\"reason\":\"");
  out.put_text(to_string(decision.reason));
  out.put('"');
  put_waits(out, decision);
  if (!id.empty()) put_id(out, decision, id);
  if (with_taken && decision.allowed()) {
    out.put(",\"taken\":");
    out.put_number(decision.taken);
  }
  if (!permit.empty()) {
    out.put(",\"permit\":");
    out.put_json(permit);
  }
}

}  // namespace

void put_limit_answer(TextBuffer& out, const NamedDecision& limit, std::string_view permit,
                      bool with_taken, std::string_view id) {
  put_head(out, limit.decision, nullptr, with_taken, id, permit);
  out.put(",\"limits\":[{\"name\":");
  out.put_json(limit.name);
  put_numbers(out, limit.limit, limit.decision);
  out.put("}]}");
}

void put_check_answer(TextBuffer& out, const RuleAnswer& answer, bool with_taken,
                      std::string_view id, bool is_about_id) {
  put_head(out, answer.decision, answer.rule, with_taken, id, answer.permit);
  const bool finds_nothing = is_about_id && answer.decision.allowed() && answer.limits.empty();
  const std::string_view detail = finds_nothing ? kNoBudget : answer.mistake;
  if (!detail.empty()) {
    out.put(",\"detail\":");
    out.put_json(detail);
  }
  if (const LimitAnswer* const charged = answer.charged()) {
    out.put(",\"charged\":");
    out.put_json(charged->limit->name);
  }
  if (answer.degraded()) put_degraded(out, answer);
  out.put(",\"limits\":[");
  for (const LimitAnswer& limit : answer.limits) {
    if (&limit != answer.limits.data()) out.put(',');
    put_limit(out, limit, answer.rule);
  }
  if (!answer.skipped.empty()) put_skipped(out, answer);
  out.put("]}");
}

// What put_check_answer() writes, as a table, which only the reference of the HTTP API and tests
// read.
namespace {

using Row = base::JsonMember<std::string_view>;
using RowsOf = base::JsonObject<std::string_view>;
constexpr std::uint64_t kMostNumber = std::numeric_limits<std::int64_t>::max();

constexpr Row whole(std::string_view name, std::string_view about) {
  return {.name = name, .kinds = base::kJsonWhole, .expected = about, .most = kMostNumber};
}
constexpr Row truth(std::string_view name, std::string_view about,
                    unsigned kinds = base::kJsonTrue) {
  return {.name = name, .kinds = kinds, .expected = about};
}
constexpr Row text(std::string_view name, std::string_view about, bool required = false) {
  return {.name = name, .kinds = base::kJsonText, .expected = about, .required = required};
}

constexpr Row kRetryAfter = whole("retry_after_ms", "expected milliseconds until it would pass");
constexpr Row kDelay =
    whole("delay_ms", "expected milliseconds to wait before the request goes on");
constexpr Row kOfLimit[] = {
    text("name", "expected the name of the limit", true),
    text("rule", "expected its rule, if it is not the one above"),
    truth("shadow", "expected true for a limit of a shadow rule"),
    truth("passed_over", "expected true if another budget of the row was asked"),
    {.name = "limit",
     .kinds = base::kJsonWhole,
     .expected = "expected the capacity",
     .most = kMostNumber,
     .required = true},
    whole("remaining",
          "expected the units that would pass after this request, or after what a peek asks about"),
    whole("reset_after_ms", "expected milliseconds until the limit is fully replenished"),
    kRetryAfter,
    kDelay,
    truth("near", "expected whether as much is used as `warn` says",
          base::kJsonTrue | base::kJsonFalse)};
constexpr RowsOf kInLimit(kOfLimit);
constexpr Row kEachLimit{.kinds = base::kJsonObject, .object = &kInLimit};
constexpr Row kAnyText[] = {text("", "")};
constexpr RowsOf kInHeaders(kAnyText, nullptr, true);
constexpr auto kOutcomes = std::to_array<std::string_view>({"allowed", "denied"});
constexpr Row kOfAnswer[] = {
    {.name = "outcome", .kinds = base::kJsonText, .required = true, .one_of = kOutcomes},
    {.name = "rule",
     .kinds = base::kJsonText | base::kJsonNull,
     .expected = "expected the rule that decided; null if no rule matched"},
    text("reason", "expected why, such as ok or limited", true),
    kRetryAfter,
    kDelay,
    text("id", "expected the id under which budgets count the request"),
    truth("repeated", "expected true if a budget has counted it before"),
    truth("late", "expected true if the hold had ended"),
    whole("ends_after_ms", "expected milliseconds until the hold ends"),
    whole("taken", "expected the units that take_at_most took"),
    text("permit", "expected the text that releases the permit"),
    text("detail", "expected what is wrong with the request, or why nothing changed"),
    text("charged", "expected the budget that was charged, if a limit has an overflow"),
    truth("degraded", "expected true if a limit is used as its `degrade` says"),
    {.name = "headers",
     .kinds = base::kJsonObject,
     .expected = "expected the headers of `degrade`",
     .object = &kInHeaders},
    {.name = "limits",
     .kinds = base::kJsonArray,
     .expected = "expected the limits that applied",
     .each = &kEachLimit},
    {.name = "skipped",
     .kinds = base::kJsonArray,
     .expected = "expected the limits that an attribute was missing for",
     .each = kAnyText}};
constexpr RowsOf kInAnswer(kOfAnswer);
constexpr Row kOneAnswer{.kinds = base::kJsonObject, .object = &kInAnswer};
constexpr Row kAnswers{.kinds = base::kJsonObject | base::kJsonArray,
                       .expected = "expected an answer, or an array of them for an array",
                       .object = &kInAnswer,
                       .each = &kOneAnswer};

}  // namespace

void write_answer_schema(base::JsonWriter& json) { base::write_json_schema(json, kAnswers); }

std::string find_undocumented(std::string_view answer) {
  base::JsonProblem problem;
  std::string_view ignored;
  const bool is_known =
      base::JsonReader<std::string_view>().read(answer, kAnswers, ignored, problem);
  return is_known ? "" : problem.place + ": " + problem.message();
}

namespace {

constexpr std::string_view kBody = "expected {\"permit\":\"TEXT\"}, with the text of /v1/check";

constexpr Row kPermit[] = {
    {.name = "permit",
     .kinds = base::kJsonText,
     .set =
         [](std::string_view& into, const base::JsonValue& value, base::JsonProblem&) {
           into = value.text;
           return true;
         },
     .required = true}};
constexpr base::JsonObject<std::string_view> kPermitObject(kPermit);
constexpr Row kPermitBody{.kinds = base::kJsonObject, .object = &kPermitObject};

// Reads the body of /v1/release or /v1/extend. Returns what is wrong with it, or an empty text.
std::string read_permit(base::JsonReader<std::string_view>& reader, std::string_view body,
                        std::string_view& permit) {
  base::JsonProblem problem;
  if (reader.read(body, kPermitBody, permit, problem)) return {};
  using Kind = base::JsonProblem::Kind;
  if (problem.kind == Kind::kSyntax || problem.kind == Kind::kTooDeep) {
    return "the body is not valid JSON (" + problem.what + "); " + std::string(kBody);
  }
  const bool is_object = problem.kind != Kind::kValue || !problem.place.empty();
  return (is_object ? "the body has no permit, or more; " : "the body is not a JSON object; ") +
         std::string(kBody);
}

}  // namespace

void write_permit_schema(base::JsonWriter& json) { base::write_json_schema(json, kPermitBody); }

void answer_permit(bool releases, Session& session, const http::Request& request,
                   http::Response& response) {
  base::JsonReader<std::string_view> reader;
  std::string_view permit;
  if (const std::string wrong = read_permit(reader, request.body, permit); !wrong.empty()) {
    return refuse_request(response, {400, wrong});
  }
  if (const auto text = PermitText::parse(permit); !text) {
    return refuse_request(response, {400, "at permit: " + text.error()});
  }
  const Decision decision = releases ? session.release(permit) : session.extend(permit);
  if (decision.allowed()) {
    response.text = R"({"outcome":"allowed","reason":"ok"})";
    return response.answer_text(200, "application/json");
  }
  const ReasonReport& report = report_of(decision.reason);
  answer_problem(response, {report.http, std::string(report.detail)});
}

namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kUnsafeSettlement =
    "the header Idempotency-Key does not make a settlement without \"id\" safe to repeat; "
    "expected \"id\", that of the hold or a new one, or no such header";
constexpr std::string_view kUnsafeReport =
    "the header Idempotency-Key does not make a report safe to repeat; expected no such header";
constexpr std::string_view kNoWaiting =
    "at wait_ms: this server lets no request wait; expected bounds.waiting above 0 in its "
    "configuration";

// What a request does under an id, or its verb.
Action action_of(CheckKind kind, const CheckRequest& request) noexcept {
  const bool holds = request.verb == Verb::kHold;
  switch (kind) {
    case CheckKind::kSettle: return request.id ? Verb::kSettle : request.verb;
    case CheckKind::kCancel: return Verb::kCancel;
    case CheckKind::kExtend: return {Verb::kExtend, request.hold};
    default: return {request.verb, holds ? request.hold : request.max_wait};
  }
}

// A larger buffer is released.
constexpr std::size_t kMostKept = std::size_t{64} << 10;

}  // namespace

// Decides one request of a body and adds its answer to those before it.
void CheckEndpoint::answer(CheckKind kind, const CheckRequest& request, bool alone,
                           http::Response& response) {
  if (!alone && !std::exchange(is_in_array_, true)) session_.decide_array(true);
  if (request.wait > Duration{0} && sleeps_ == nullptr) {
    return refuse_request(response, {400, std::string(kNoWaiting)});
  }
  if (std::string wrong = find_id(kind, request, alone); !wrong.empty()) {
    return refuse_request(response, {400, std::move(wrong)});
  }
  if (request.limit) return answer_limit(kind, request, response);
  const RuleAnswer& answer = decide(kind, request);
  if (alone) {
    response.status = http_status(answer);
    response.fields.append(fields_.lines(answer));
    append_rule_headers(answer, response.fields);
    if (answer.decision.reason == Reason::kInvalid) return put_rejection(answer, response);
  }
  if (text_.size() > 0) text_.put(',');
  const bool is_about_id = kind != CheckKind::kCheck && !id_.empty();
  put_check_answer(text_, answer, request.verb == Verb::kTakeAtMost, id_, is_about_id);
}

void CheckEndpoint::answer_limit(CheckKind kind, const CheckRequest& request,
                                 http::Response& response) {
  std::string permit;
  const Limit& limit = *request.limit;
  if (!id_.empty() && !holds_amounts(limit.algorithm())) {
    return refuse_request(response,
                          {400, "at limit.algorithm: " + std::string(to_string(limit.algorithm())) +
                                    " has no ids and holds nothing; expected budget"});
  }
  Charge charge{request.limit_key, limit, request.actual.value_or(request.cost)};
  charge.id_text = id_;
  if (!id_.empty()) charge.permit = &hold_;
  const Decision decision = session_.decide(charge, action_of(kind, request), &permit);
  const NamedDecision named{to_string(limit.algorithm()), limit, decision};
  response.status = http_status(decision);
  response.fields.append(limit_fields_.lines({&named, 1}, decision));
  put_limit_answer(text_, named, permit, request.verb == Verb::kTakeAtMost, id_);
}

// Finds the id of the request, or makes one for a hold. Returns what is wrong, or an empty text.
std::string CheckEndpoint::find_id(CheckKind kind, const CheckRequest& request, bool alone) {
  const bool takes_key = key_ && !request.id;
  id_ = request.id.value_or(takes_key ? *key_ : std::string_view());
  if (key_ && !alone && kind == CheckKind::kCheck) {
    return "the header Idempotency-Key is for a single request; expected \"id\" in each of an "
           "array";
  }
  if (takes_key && !may_have_id(request.verb)) {
    return "the header Idempotency-Key is next to another verb; " + std::string(kVerbsWithId);
  }
  if (takes_key && (id_.empty() || id_.size() > kMaxIdBytes)) {
    return "the header Idempotency-Key has " + std::to_string(id_.size()) +
           " bytes; expected 1 to 128";
  }
  if (takes_key && request.wait > Duration{0}) {
    return "at wait_ms: a request with an Idempotency-Key cannot wait; expected one of them";
  }
  if (id_.empty() && request.verb == Verb::kHold) id_ = made_id_ = PermitId::random_text();
  if (!id_.empty()) hold_ = PermitId::named(id_);
  return {};
}

// Ends or extends the holds of an id.
const RuleAnswer& CheckEndpoint::settle(CheckKind kind, const CheckRequest& request) {
  RequestCosts costs(0, request.actual_costs);
  if (kind == CheckKind::kSettle) costs.units = request.actual.value_or(RequestCosts::kNoUnits);
  costs.id = &hold_;
  costs.id_text = id_;
  return *session_.decide(
      {.attributes = request.attributes, .costs = costs, .action = action_of(kind, request)});
}

const RuleAnswer& CheckEndpoint::decide(CheckKind kind, const CheckRequest& request) {
  if (kind != CheckKind::kCheck && kind != CheckKind::kReport && request.id) {
    return settle(kind, request);
  }
  RequestCosts costs(request.cost, request.costs);
  costs.id_text = id_;
  if (!id_.empty()) costs.id = &hold_;
  if (request.wait > Duration{0}) {
    sleep_.emplace(*sleeps_);
    return session_.acquire(request.attributes, costs, request.wait, *sleep_, client_);
  }
  const RequestCosts actual(request.actual.value_or(1), request.actual_costs);
  const AttributesBy reported([&](std::string_view name) {
    if (name == "status" && request.status) return request.status;
    return request.response ? request.response->find(name) : request.attributes.find(name);
  });
  return *session_.decide({.attributes = request.attributes,
                           .costs = costs,
                           .action = action_of(kind, request),
                           .actual = kind == CheckKind::kSettle ? &actual : nullptr,
                           .response = kind == CheckKind::kReport ? &reported : nullptr,
                           .hands_out_permit = true});
}

void CheckEndpoint::handle(CheckKind kind, const http::Request& request, bool may_operate,
                           http::Response& response) {
  text_.clear();
  key_buffers_.clear();
  client_ = request.descriptor;
  const bool reads_key = kind != CheckKind::kCancel && kind != CheckKind::kExtend;
  key_ = reads_key ? find_header(request.fields, "idempotency-key", key_buffers_) : std::nullopt;
  const auto end = [](CheckEndpoint* of) {
    of->sleep_.reset();
    of->key_.reset();
    if (std::exchange(of->is_in_array_, false)) of->session_.decide_array(false);
  };
  const std::unique_ptr<CheckEndpoint, decltype(end)> ends(this, end);
  const auto pass = [&](const CheckRequest& one, bool alone) {
    if (response.content_type.empty()) answer(kind, one, alone, response);
  };
  if (key_ && kind == CheckKind::kReport) {
    return refuse_request(response, {400, std::string(kUnsafeReport)});
  }
  std::string error;
  if (key_ && kind == CheckKind::kSettle) {
    // No settlement of an array is done if one of them is refused.
    const auto check = [&](const CheckRequest& one, bool) {
      if (!one.id) refuse_request(response, {400, std::string(kUnsafeSettlement)});
    };
    error = reader_.read(kind, request.body, may_operate, std::ref(check));
  }
  if (error.empty()) error = reader_.read(kind, request.body, may_operate, std::ref(pass));
  if (reader_.needs_operate()) return refuse_request(response, {403, error});
  if (!error.empty()) return refuse_request(response, {400, error});
  if (!response.content_type.empty()) {
    return response.answer_text(response.status, response.content_type);
  }
  if (reader_.is_array()) response.text += '[';
  response.text.append(text_.view());
  if (reader_.is_array()) response.text += ']';
  response.answer_text(response.status, kJson);
  if (text_.size() > kMostKept) text_ = TextBuffer();
}

}  // namespace sluice::server
