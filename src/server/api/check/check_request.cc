#include "server/api/check/check_request.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/json_reader_impl.h"
#include "base/quoted.h"
#include "core/limit.h"
#include "limiter/limit_arguments.h"
#include "server/protocol/http/access.h"

namespace sluice::server {
namespace {

using base::JsonProblem;
using base::JsonValue;

constexpr std::string_view kStatus = "expected the status of the response, such as 401";
constexpr std::string_view kWholeCost = "expected a whole number from 0 to 4294967295";
constexpr std::string_view kNamedCosts =
    "expected an object of limits and their costs, {\"tokens\":700}";
constexpr std::string_view kActual =
    "expected the actual cost: a whole number from 0 to 4294967295, or an object of limits and "
    "their actual costs, {\"tokens\":512}";
constexpr std::uint64_t kMostWaitMs = 86'400'000;
constexpr std::string_view kMaxWait =
    "expected milliseconds: a whole number from 0 to 86400000 (a day)";
constexpr std::uint64_t kMostTakeWaitMs = 300'000;
constexpr std::string_view kWaitNumber =
    "expected milliseconds: a whole number from 0 to 300000 (5 minutes)";
constexpr std::string_view kVerbs =
    "expected check, peek, refund, reset, charge, take_at_most or reserve";
constexpr std::string_view kLimit =
    "expected an object of a key and numbers, "
    "{\"key\":\"alice\",\"algorithm\":\"token_bucket\",\"limit\":10,\"per\":\"60s\"}";
constexpr std::string_view kObjectOfTexts = "expected an object whose members are texts";
constexpr std::string_view kRequest = "expected a request, {\"attributes\":{...}}";
constexpr std::string_view kRequests =
    "expected a request, {\"attributes\":{...}}, or an array of them";

// The members that every limit has, in the order of the words of RL.LIMIT.
constexpr auto kRequired = std::to_array<std::string_view>({"key", "algorithm", "limit", "per"});

std::optional<Verb> verb_from(std::string_view name) noexcept {
  if (name == "check") return Verb::kTake;
  if (name == "peek") return Verb::kPeek;
  if (name == "refund") return Verb::kRefund;
  if (name == "reset") return Verb::kReset;
  if (name == "charge") return Verb::kCharge;
  if (name == "take_at_most") return Verb::kTakeAtMost;
  if (name == "reserve") return Verb::kReserve;
  return std::nullopt;
}

std::chrono::milliseconds milliseconds_of(const JsonValue& value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(value.number));
}

// Returns "LINE:COLUMN", counted from 1; columns in bytes.
std::string place(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == before.npos ? at + 1 : at - start;
  return std::to_string(line) + ":" + std::to_string(column);
}

// "at PLACE: PROBLEM; EXPECTED"
std::string error_of(const JsonProblem& problem, std::string_view body) {
  const bool is_too_deep = problem.kind == JsonProblem::Kind::kTooDeep;
  if (is_too_deep || problem.kind == JsonProblem::Kind::kSyntax) {
    const std::string at = "at " + place(body, problem.at) + " (line:column): ";
    if (is_too_deep) return at + "nested too deep; expected at most 32 levels";
    return at + "not valid JSON in UTF-8 (" + problem.what + "); " + std::string(kRequests);
  }
  const std::string where = problem.place.empty() ? "the top" : problem.place;
  return "at " + where + ": " + problem.message();
}

}  // namespace

// A body while it is read.
struct CheckReader::Document {
  CheckReader& reader;
  CheckRequest& request;
  const CheckKind kind;
  const bool may_operate;
  CheckListener* const listener;  // null: the body is only checked

  bool is_array = false;
  bool needs_operate = false;  // the reason of the problem
  std::size_t count = 0;       // of requests that have begun
  bool has_attributes = false, has_costs = false, has_limit = false;
  bool has_max_wait = false, has_wait = false;
  NamedAttributes* attributes = nullptr;    // those that are read
  std::vector<LimitCost>* costs = nullptr;  // those that are read

  // The functions of the tables.
  bool begin(const JsonValue& value, JsonProblem& problem);
  bool begin_attributes(const JsonValue&, JsonProblem&) {
    attributes = &request.attributes;
    return has_attributes = true;
  }
  bool begin_response(const JsonValue&, JsonProblem&) {
    attributes = &request.response.emplace();
    return true;
  }
  bool add_attribute(const JsonValue& value, JsonProblem& problem);
  bool set_cost(const JsonValue& value, JsonProblem&) {
    request.cost = value.number;
    return true;
  }
  bool begin_costs(const JsonValue&, JsonProblem&) {
    costs = &request.costs;
    return has_costs = true;
  }
  bool set_actual(const JsonValue& value, JsonProblem&) {
    costs = &request.actual_costs;
    if (value.kind == base::kJsonWhole) request.actual = value.number;
    return true;
  }
  bool add_cost(const JsonValue& value, JsonProblem& problem);
  bool set_verb(const JsonValue& value, JsonProblem& problem);
  bool set_max_wait(const JsonValue& value, JsonProblem&) {
    request.max_wait = milliseconds_of(value);
    return has_max_wait = true;
  }
  bool set_wait(const JsonValue& value, JsonProblem&) {
    request.wait = milliseconds_of(value);
    return has_wait = true;
  }
  bool set_status(const JsonValue& value, JsonProblem&) {
    request.status = value.text;
    return true;
  }
  bool begin_limit(const JsonValue&, JsonProblem&) {
    reader.limit_words_.assign(kRequired.size(), {});
    return has_limit = true;
  }
  bool add_to_limit(const JsonValue& value, JsonProblem& problem);
  bool end_limit(JsonProblem& problem);
  bool end_request(JsonProblem& problem);

 private:
  void open_body(std::string_view name);
  bool check_alone(JsonProblem& problem) const;
  bool check_privilege(JsonProblem& problem);
};

bool CheckReader::Handler::end_request(json::error_code& error) {
  place_ = is_array_ ? Place::kArray : Place::kTop;
  if (has(Member::kLimit)) {
    if (!check_alone(error)) return false;
  } else if (!has(Member::kAttributes)) {
    return fail(error, "attributes", "missing", kObjectOfTexts);
  }
  if (kind_ == CheckKind::kSettle && !has(Member::kActual)) {
    return fail(error, "actual", "missing", kActual);
  }
  if (request_.verb == Verb::kReserve && !has(Member::kMaxWait)) {
    return fail(error, "max_wait_ms", "missing", kMaxWait);
  }
  if (request_.verb != Verb::kReserve && has(Member::kMaxWait)) {
    return fail(error, "max_wait_ms", "only a reservation waits", "expected the verb reserve");
  }
  if (has(Member::kWait) && request_.verb != Verb::kTake) {
    return fail(error, "wait_ms", "only a check waits", "expected the verb check");
  }
  if (has(Member::kWait) && is_array_) {
    return fail(error, "wait_ms", "a request in an array cannot wait", "expected a single request");
  }
  if (const auto twice = request_.attributes.finish())
    return twice_named(error, "attributes", *twice);
  if (const auto twice = request_.response ? request_.response->finish() : std::nullopt) {
    return twice_named(error, "response", *twice);
  }
  if (!may_operate_ && !check_privilege(error)) return false;
  if (listener_ != nullptr) listener_->on_request(request_, false);
  return true;
}

// Checks that a request with a limit of its own says nothing that is only for rules.
bool CheckReader::Handler::check_alone(json::error_code& error) {
  if (is_array_) {
    return fail(error, "limit", "only a single request has one", "expected 'attributes'");
  }
  using Other = std::pair<Member, std::string_view>;
  for (const auto& [member, name] :
       {Other(Member::kAttributes, "attributes"), Other(Member::kCosts, "costs"),
        Other(Member::kWait, "wait_ms")}) {
    if (has(member)) return fail(error, name, "next to 'limit'", "expected one of them");
  }
  return true;
}

bool CheckReader::Handler::twice_named(json::error_code& error, std::string_view where,
                                       std::string_view name) {
  return fail(error, where, base::in_quotes(name) + " is given twice",
              "expected each attribute once");
}

// Checks that the request is one of those that everyone may make.
bool CheckReader::Handler::check_privilege(json::error_code& error) {
  if (has(Member::kLimit)) {
    needs_operate_ = true;
    return fail(error, "limit", "a limit of the request itself", kNeedsOperate);
  }
  if (kind_ != CheckKind::kCheck) {
    needs_operate_ = true;
    return fail(error, {}, kind_ == CheckKind::kSettle ? "a settlement" : "a report",
                kNeedsOperate);
  }
  const Verb verb = request_.verb;
  const bool takes = verb == Verb::kTake || verb == Verb::kTakeAtMost;
  const bool is_verb = !takes && verb != Verb::kPeek;
  const bool takes_several =
      takes && std::any_of(request_.costs.begin(), request_.costs.end(),
                           [](const LimitCost& cost) { return cost.units > 1; });
  if (!is_verb && !takes_several && (!takes || request_.cost <= 1)) return true;
  needs_operate_ = true;
  return fail(error,
              is_verb             ? "verb"
              : request_.cost > 1 ? "cost"
                                  : "costs",
              is_verb ? "neither a check nor a peek" : "several units", kNeedsOperate);
}

bool CheckReader::Handler::on_object_begin(json::error_code& error) {
  switch (place_) {
    case Place::kTop:
    case Place::kArray: return begin_request(error);
    case Place::kRequest:
      if (member_ == Member::kCosts || member_ == Member::kActual) {
        place_ = Place::kCosts;
        return true;
      }
      if (member_ == Member::kLimit) {
        place_ = Place::kLimit;
        limit_.clear();
        return true;
      }
      if (member_ == Member::kResponse) request_.response.emplace();
      if (member_ != Member::kAttributes && member_ != Member::kResponse) {
        return wrong_value(error, "an object");
      }
      place_ = Place::kAttributes;
      return true;
    case Place::kCosts:
    case Place::kLimit: return wrong_value(error, "an object");
    case Place::kAttributes:
      if (name_ != "body") return wrong_value(error, "an object");
      body_depth_ = 0;
      prefix_.clear();
      return open_body(error);
    case Place::kBody: return open_body(error);
  }
  return false;
}

bool CheckReader::Handler::open_body(json::error_code& error) {
  if (!add(std::nullopt, error)) return false;
  place_ = Place::kBody;
  prefix_sizes_[body_depth_++] = prefix_.size();
  prefix_ = name_;
  prefix_ += '.';
  return true;
}

bool CheckReader::Handler::on_object_end(std::size_t, json::error_code& error) {
  switch (place_) {
    case Place::kTop:
    case Place::kArray: return false;
    case Place::kRequest: return end_request(error);
    case Place::kAttributes:
    case Place::kCosts: place_ = Place::kRequest; return true;
    case Place::kLimit: place_ = Place::kRequest; return end_limit(error);
    case Place::kBody:
      prefix_.resize(prefix_sizes_[--body_depth_]);
      if (body_depth_ == 0) place_ = Place::kAttributes;
      return true;
  }
  return false;
}

bool CheckReader::Handler::on_array_begin(json::error_code& error) {
  if (place_ != Place::kTop) return wrong_value(error, "an array");
  place_ = Place::kArray;
  is_array_ = true;
  return true;
}

bool CheckReader::Handler::on_key(json::string_view text, std::size_t, json::error_code& error) {
  const std::string_view name = whole(text);
  if (place_ == Place::kRequest) return on_member(name, error);
  if (place_ == Place::kLimit) return on_limit_member(name, error);
  return place_ == Place::kCosts ? on_limit_name(name, error) : on_attribute_name(name, error);
}

bool CheckReader::Handler::on_member(std::string_view name, json::error_code& error) {
  if (name == "attributes") {
    member_ = Member::kAttributes;
  } else if (name == "cost") {
    member_ = Member::kCost;
  } else if (name == "costs") {
    member_ = Member::kCosts;
  } else if (kind_ == CheckKind::kSettle && name == "actual") {
    member_ = Member::kActual;
  } else if (kind_ == CheckKind::kReport && name == "status") {
    member_ = Member::kStatus;
  } else if (kind_ == CheckKind::kReport && name == "response") {
    member_ = Member::kResponse;
  } else if (kind_ == CheckKind::kCheck && name == "limit") {
    member_ = Member::kLimit;
  } else if (kind_ == CheckKind::kCheck && name == "verb") {
    member_ = Member::kVerb;
  } else if (kind_ == CheckKind::kCheck && name == "max_wait_ms") {
    member_ = Member::kMaxWait;
  } else if (kind_ == CheckKind::kCheck && name == "wait_ms") {
    member_ = Member::kWait;
  } else {
    return fail(error, {}, "unknown member " + base::in_quotes(name),
                kind_ == CheckKind::kSettle   ? kSettleMembers
                : kind_ == CheckKind::kReport ? kReportMembers
                                              : kMembers);
  }
  const unsigned bit = 1U << static_cast<unsigned>(member_);
  if ((members_ & bit) != 0) {
    return fail(error, {}, "the member " + base::in_quotes(name) + " is given twice",
                "expected it once");
  }
  members_ |= bit;
  return true;
}

bool CheckReader::Handler::on_attribute_name(std::string_view name, json::error_code& error) {
  const std::size_t prefix = place_ == Place::kBody ? prefix_.size() : 0;
  if (prefix + name.size() > NamedAttributes::kMostNameBytes) {
    return fail(error, attributes_name(), "the name " + base::in_quotes(name) + " is too long",
                "expected at most 256 bytes, including dots and the names of outer objects");
  }
  const std::size_t start = text_.size();
  if (prefix > 0) {
    name_ = std::string_view(text_.append(prefix_).append(name)).substr(start);
  } else if (name.substr(0, 7) == "header." &&
             std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
    for (const char c : name) text_ += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    name_ = std::string_view(text_).substr(start);
  } else {
    name_ = name;
  }
  unfinished_ = text_.size();
  return true;
}

bool CheckReader::Handler::on_limit_name(std::string_view name, json::error_code& error) {
  const auto is_same = [&](const LimitCost& cost) { return cost.limit == name; };
  const std::vector<LimitCost>& costs = named_costs();
  if (std::any_of(costs.begin(), costs.end(), is_same)) {
    return fail(error, costs_name(), base::in_quotes(name) + " is given twice",
                "expected each limit once");
  }
  if (costs.size() == kMaxCharges) {
    return fail(error, costs_name(), "over 64 of them", "expected at most 64");
  }
  name_ = name;
  return true;
}

bool CheckReader::Handler::on_limit_member(std::string_view name, json::error_code& error) {
  name_ = name;
  const auto wrong = limit_.begin(name);
  return !wrong || fail_limit(error, *wrong);
}

bool CheckReader::Handler::fail_limit(json::error_code& error, std::string_view why) {
  const std::size_t end = std::min(why.find("; "), why.size());
  return fail(error, "limit", why.substr(0, end), why.substr(std::min(end + 2, why.size())));
}

bool CheckReader::Handler::end_limit(json::error_code& error) {
  const auto read = limit_.finish();
  if (!read) return fail_limit(error, read.error());
  request_.limit = *read;
  request_.limit_key = limit_.key();
  return true;
}

bool CheckReader::Handler::add(std::optional<std::string_view> value, json::error_code& error) {
  const std::size_t responded = request_.response ? request_.response->size() : 0;
  if (request_.attributes.size() + responded == NamedAttributes::kMost) {
    return fail(error, attributes_name(), "over 1000 of them", "expected at most 1000");
  }
  named_attributes().add(name_, value);
  return true;
}

bool CheckReader::Handler::on_string(json::string_view text, std::size_t, json::error_code& error) {
  const std::string_view value = whole(text);
  if (place_ == Place::kAttributes || place_ == Place::kBody) return add(value, error);
  if (place_ == Place::kLimit) return limit_.set(value);
  if (place_ == Place::kRequest && member_ == Member::kStatus) {
    request_.status = value;
    return true;
  }
  if (place_ != Place::kRequest || member_ != Member::kVerb) return wrong_value(error, "text");
  const auto verb = verb_from(value);
  if (!verb) return wrong_value(error, base::in_quotes(value));
  request_.verb = *verb;
  return true;
}

// Reads a number. `number` is its value if it fits into 64 bits.
bool CheckReader::Handler::on_number(std::string_view text, std::optional<std::int64_t> number,
                                     json::error_code& error) {
  const bool is_member = place_ == Place::kRequest;
  if (is_member && member_ == Member::kStatus) {
    request_.status = text;
    return true;
  }
  if (place_ == Place::kLimit) return limit_.set(text);
  const bool is_take_wait = is_member && member_ == Member::kWait;
  const bool is_wait = is_take_wait || (is_member && member_ == Member::kMaxWait);
  const bool is_cost = is_member && member_ == Member::kCost;
  const bool is_actual = is_member && member_ == Member::kActual;
  if (!is_wait && !is_cost && !is_actual && place_ != Place::kCosts) {
    return on_other("a number", text, error);
  }
  const std::int64_t most = is_take_wait ? kMostTakeWaitMs
                            : is_wait    ? kMostWaitMs
                                         : static_cast<std::int64_t>(kMaxUnits);
  if (!number || *number < 0 || *number > most) {
    return wrong_value(error, std::string(text.substr(0, 40)));
  }
  const auto units = static_cast<std::uint64_t>(*number);
  if (is_wait) {
    (is_take_wait ? request_.wait : request_.max_wait) = std::chrono::milliseconds(*number);
  } else if (is_cost || is_actual) {
    (is_cost ? request_.cost : request_.actual) = units;
  } else {
    named_costs().push_back({name_, units});
  }
  return true;
}

// Reads a value that only a member of "body" may have.
bool CheckReader::Handler::on_other(std::string_view text, std::optional<std::string_view> value,
                                    json::error_code& error) {
  return place_ == Place::kBody ? add(value, error) : wrong_value(error, text);
}

CheckReader::Outcome CheckReader::read(CheckKind kind, std::string_view body, bool may_operate,
                                       CheckListener& listener) {
  // Reserves room for everything that was escaped, and for all joined names up to the one over the
  // bound, so that `text_` does not move. Pages that are never written take no memory.
  text_.clear();
  text_.reserve(body.size() + (NamedAttributes::kMost + 1) * NamedAttributes::kMostNameBytes);
  json::parse_options options;
  options.max_depth = kMostDepth;
  Outcome outcome;
  const auto pass = [&](CheckListener* heard) {
    json::basic_parser<Handler> parser(options, *this, kind, body, may_operate, heard);
    json::error_code error;
    const std::size_t at = parser.write_some(false, body.data(), body.size(), error);
    outcome.is_array = parser.handler().is_array();
    if (!error && at < body.size()) error = json::error::extra_data;
    if (!error) return true;
    outcome.error = parser.handler().mistake();
    outcome.needs_operate = parser.handler().needs_operate();
    if (outcome.error.empty()) {
      outcome.error = "at " + place(body, at) + " (line:column): " + syntax_mistake(error);
    }
    return false;
  };
  if (!pass(nullptr)) return outcome;
  if (outcome.is_array) {
    pass(&listener);
  } else {
    listener.on_request(request_, true);
  }
  return outcome;
}

}  // namespace sluice::server
