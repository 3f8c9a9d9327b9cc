#include "server/api/check/check_endpoint.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/json_reader.h"
#include "base/json_schema.h"
#include "base/quoted.h"
#include "core/limit.h"
#include "limiter/answer.h"
#include "limiter/limit_arguments.h"
#include "server/protocol/http/access.h"
#include "sluice/permit_id.h"

namespace sluice::server {
namespace {

using base::JsonProblem;
using base::JsonValue;

constexpr std::string_view kStatus = "expected the status of the response, such as 401";
constexpr std::string_view kWholeCost = "expected a whole number from 0 to 9007199254740991";
constexpr std::string_view kNamedCosts =
    "expected an object of limits and their costs, {\"tokens\":700}";
constexpr std::string_view kActual =
    "expected the actual cost: a whole number from 0 to 9007199254740991, or an object of limits "
    "and their actual costs, {\"tokens\":512}";
constexpr std::uint64_t kMostWaitMs = 86'400'000;
constexpr std::string_view kMaxWait =
    "expected milliseconds: a whole number from 0 to 86400000 (a day)";
constexpr std::uint64_t kMostTakeWaitMs = 300'000;
constexpr std::string_view kWaitNumber =
    "expected milliseconds: a whole number from 0 to 300000 (5 minutes)";
constexpr std::uint64_t kMostHoldMs = 86'400'000;
constexpr std::string_view kHoldMs =
    "expected milliseconds: a whole number from 1000 to 86400000 (a day)";
constexpr std::string_view kId = "expected a text of 1 to 128 bytes";
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

constexpr auto kVerbNames = std::to_array<std::string_view>(
    {"check", "peek", "refund", "reset", "charge", "take_at_most", "reserve"});
constexpr std::array kVerbOfName = {Verb::kTake,   Verb::kPeek,       Verb::kRefund, Verb::kReset,
                                    Verb::kCharge, Verb::kTakeAtMost, Verb::kReserve};

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

// Begins a request or an array of them.
bool CheckReader::begin(const JsonValue& value, JsonProblem& problem) {
  if (value.kind == base::kJsonArray) return is_array_ = true;
  if (++count_ > kMostRequests) {
    return problem.is_outer("over 1000 requests",
                            "expected at most 1000; send the others in another array");
  }
  has_attributes_ = has_costs_ = has_limit_ = has_max_wait_ = has_wait_ = has_hold_ = false;
  request_.attributes.clear();
  request_.cost = 1;
  request_.costs.clear();
  request_.limit.reset();
  request_.verb = Verb::kTake;
  request_.max_wait = request_.wait = Duration{0};
  request_.id.reset();
  request_.hold = Duration{0};
  request_.actual.reset();
  request_.actual_costs.clear();
  request_.status.reset();
  request_.response.reset();
  names_.clear();
  prefix_.clear();
  prefix_sizes_.clear();
  return true;
}

bool CheckReader::set_verb(const JsonValue& value, JsonProblem&) {
  const auto* const name = std::ranges::find(kVerbNames, value.text);
  request_.verb = kVerbOfName[static_cast<std::size_t>(name - kVerbNames.begin())];
  return true;
}

// Adds an attribute, or the object "body" or one in it, which only prevents its name from being
// repeated.
bool CheckReader::add_attribute(const JsonValue& value, JsonProblem& problem) {
  const std::size_t prefix = prefix_.size();
  std::string_view name = value.name;
  if (prefix + name.size() > NamedAttributes::kMostNameBytes) {
    return problem.is("the name " + base::in_quotes(name) + " is too long",
                      "expected at most 256 bytes, including dots and the names of outer objects");
  }
  const std::size_t start = names_.size();
  if (prefix > 0) {
    name = std::string_view(names_.append(prefix_).append(name)).substr(start);
  } else if (name.starts_with("header.") && std::ranges::any_of(name, base::is_upper)) {
    for (const char c : name) names_ += base::lower(c);
    name = std::string_view(names_).substr(start);
  }
  const std::size_t responded = request_.response ? request_.response->size() : 0;
  if (request_.attributes.size() + responded == NamedAttributes::kMost) {
    return problem.is("over 1000 of them", "expected at most 1000");
  }
  const bool is_absent = value.kind == base::kJsonObject || value.kind == base::kJsonNull;
  attributes_->add(name, is_absent ? std::nullopt : std::optional(value.text));
  if (value.kind == base::kJsonObject) open_body(name);
  return true;
}

void CheckReader::open_body(std::string_view name) {
  prefix_sizes_.push_back(prefix_.size());
  prefix_ = name;
  prefix_ += '.';
}

bool CheckReader::add_cost(const JsonValue& value, JsonProblem& problem) {
  const auto is_same = [&](const LimitCost& cost) { return cost.limit == value.name; };
  if (std::any_of(costs_->begin(), costs_->end(), is_same)) {
    return problem.is(base::in_quotes(value.name) + " is given twice", "expected each limit once");
  }
  if (costs_->size() == kMaxCharges) return problem.is("over 64 of them", "expected at most 64");
  costs_->push_back({value.name, value.number});
  return true;
}

// Sets a member of the limit: one that every limit has, or an option, which is two words.
bool CheckReader::add_to_limit(const JsonValue& value, JsonProblem& problem) {
  std::vector<std::string_view>& words = limit_words_;
  for (std::size_t i = 0; i < words.size(); i += i < kRequired.size() ? 1 : 2) {
    const bool is_required = i < kRequired.size();
    if ((is_required ? kRequired[i] : words[i]) != value.name) continue;
    if (!is_required || words[i].data() != nullptr) {
      return problem.is(base::in_quotes(value.name) + " is given twice", "expected it once");
    }
    words[i] = value.text;
    return true;
  }
  const bool is_of_calendar = value.name == "zone" || value.name == "starts";
  if (!is_of_calendar && std::ranges::find(core::kLimitOptions, value.name,
                                           &core::OptionInfo::name) == core::kLimitOptions.end()) {
    std::string expected = "expected one of: key, algorithm, limit, per";
    for (const core::OptionInfo& option : core::kLimitOptions) {
      expected.append(", ").append(option.name);
    }
    return problem.is("unknown member " + base::in_quotes(value.name), expected + ", zone, starts");
  }
  words.push_back(value.name);
  words.push_back(value.text);
  return true;
}

bool CheckReader::end_limit(JsonProblem& problem) {
  const std::vector<std::string_view>& words = limit_words_;
  for (std::size_t i = 0; i < kRequired.size(); ++i) {
    if (words[i].data() != nullptr) continue;
    return problem.is("lacks " + base::in_quotes(kRequired[i]), kLimit);
  }
  const auto read = parse_limit({}, std::span(words).subspan(1));
  if (!read) return problem.is(read.error(), {});
  request_.limit = read->limit;
  request_.limit_key = words.front();
  return true;
}

// Checks that a request with a limit of its own says nothing that is only for rules.
bool CheckReader::check_alone(JsonProblem& problem) const {
  if (is_array_) {
    return problem.is_of("limit", "only a single request has one", "expected 'attributes'");
  }
  const std::string_view other = has_attributes_ ? "attributes"
                                 : has_costs_    ? "costs"
                                 : has_wait_     ? "wait_ms"
                                                 : "";
  if (!other.empty()) return problem.is_of(other, "next to 'limit'", "expected one of them");
  if (request_.verb == Verb::kCharge && holds_permits(request_.limit->algorithm())) {
    return problem.is_of("verb", "a limit with permits (concurrency) cannot be charged",
                         "expected the verb check");
  }
  if (kind_ != CheckKind::kSettle) return true;
  if (!request_.id) return problem.is_missing("id", kId);
  return request_.actual ||
         problem.is_of("actual", "an object next to 'limit'", "expected a number");
}

// Checks that the request is one of those that everyone may make.
bool CheckReader::check_privilege(JsonProblem& problem) {
  const Verb verb = request_.verb;
  const bool takes = verb == Verb::kTake || verb == Verb::kTakeAtMost || verb == Verb::kHold;
  const bool ends_own = kind_ != CheckKind::kCheck && kind_ != CheckKind::kReport && request_.id;
  if (ends_own && !has_limit_) return true;
  const bool is_verb = !takes && verb != Verb::kPeek;
  const bool takes_several =
      takes && std::any_of(request_.costs.begin(), request_.costs.end(),
                           [](const LimitCost& cost) { return cost.units > 1; });
  const bool is_simple = !is_verb && !takes_several && (!takes || request_.cost <= 1);
  if (!has_limit_ && kind_ == CheckKind::kCheck && is_simple) return true;
  needs_operate_ = true;
  if (has_limit_) return problem.is_of("limit", "a limit of the request itself", kNeedsOperate);
  if (kind_ == CheckKind::kSettle) return problem.is("a settlement", kNeedsOperate);
  if (kind_ == CheckKind::kReport) return problem.is("a report", kNeedsOperate);
  if (is_verb) return problem.is_of("verb", "neither a check nor a peek", kNeedsOperate);
  return problem.is_of(request_.cost > 1 ? "cost" : "costs", "several units", kNeedsOperate);
}

// Checks what is for budgets.
bool CheckReader::check_id(JsonProblem& problem) {
  const bool ends = kind_ == CheckKind::kCancel || kind_ == CheckKind::kExtend;
  const bool settles = kind_ == CheckKind::kSettle && request_.id;
  if (ends && !request_.id) return problem.is_missing("id", kId);
  if (kind_ == CheckKind::kExtend && !has_hold_) return problem.is_missing("hold_ms", kHoldMs);
  if (request_.id && (request_.id->empty() || request_.id->size() > kMaxIdBytes)) {
    return problem.is_of("id", "has " + std::to_string(request_.id->size()) + " bytes", kId);
  }
  if (has_hold_ && request_.hold < kMinHold) return problem.is_of("hold_ms", "too short", kHoldMs);
  if (settles && (has_costs_ || request_.cost != 1)) {
    return problem.is_of(has_costs_ ? "costs" : "cost", "next to 'id'",
                         "expected only 'actual': the hold has its own cost");
  }
  if (kind_ != CheckKind::kCheck) return true;
  if (request_.id && !may_have_id(request_.verb)) {
    return problem.is_of("id", "next to another verb", kVerbsWithId);
  }
  if (has_hold_ && request_.verb != Verb::kTake) {
    return problem.is_of("hold_ms", "only a check holds", "expected the verb check");
  }
  if (has_wait_ && (request_.id || has_hold_)) {
    return problem.is_of("wait_ms", "a request with an id cannot wait", "expected one of them");
  }
  if (has_hold_) request_.verb = Verb::kHold;
  return true;
}

bool CheckReader::end_request(JsonProblem& problem) {
  if (!check_id(problem)) return false;
  if (has_limit_) {
    if (!check_alone(problem)) return false;
  } else if (!has_attributes_) {
    return problem.is_missing("attributes", kObjectOfTexts);
  }
  if (request_.verb == Verb::kReserve && !has_max_wait_) {
    return problem.is_missing("max_wait_ms", kMaxWait);
  }
  if (request_.verb != Verb::kReserve && has_max_wait_) {
    return problem.is_of("max_wait_ms", "only a reservation waits", "expected the verb reserve");
  }
  if (has_wait_ && request_.verb != Verb::kTake) {
    return problem.is_of("wait_ms", "only a check waits", "expected the verb check");
  }
  if (has_wait_ && is_array_) {
    return problem.is_of("wait_ms", "a request in an array cannot wait",
                         "expected a single request");
  }
  if (!may_operate_ && !check_privilege(problem)) return false;
  if (on_request_ != nullptr) (*on_request_)(request_, !is_array_);
  return true;
}

// What the bodies of the paths of CheckKind may contain.
struct CheckReader::Tables {
  using Member = base::JsonMember<CheckReader>;
  using Object = base::JsonObject<CheckReader>;

  static bool end_attributes(CheckReader& of, JsonProblem& problem) {
    const auto twice = of.attributes_->finish();
    return !twice ||
           problem.is(base::in_quotes(*twice) + " is given twice", "expected each attribute once");
  }
  static const Member& top_of(CheckKind kind);

  template <auto Member, auto Has>
  static bool set_time(CheckReader& of, const JsonValue& value, JsonProblem&) {
    of.request_.*Member = std::chrono::milliseconds(static_cast<std::int64_t>(value.number));
    return of.*Has = true;
  }

  static const Object kInBody;
  static constexpr Member kOfBody[] = {
      {.kinds = base::kJsonAny & ~base::kJsonArray,
       .expected = "expected text, a number, true, false, null or an object",
       .set = base::json_into<&CheckReader::add_attribute>,
       .object = &kInBody}};
  static constexpr Member kOfAttributes[] = {
      {.name = "body",
       .kinds = base::kJsonText | base::kJsonObject,
       .expected = "expected text or an object",
       .set = base::json_into<&CheckReader::add_attribute>,
       .object = &kInBody},
      {"", base::kJsonText, "expected text", base::json_into<&CheckReader::add_attribute>}};
  static constexpr Object kInAttributes{kOfAttributes, end_attributes, true};
  static constexpr Member kOfCosts[] = {
      {"", base::kJsonWhole, kWholeCost, base::json_into<&CheckReader::add_cost>, kMaxAmount}};
  static constexpr Object kInCosts{kOfCosts, nullptr, true};
  static constexpr Member kOfLimit[] = {{"", base::kJsonText | base::kJsonNumber,
                                         "expected text or a number",
                                         base::json_into<&CheckReader::add_to_limit>}};
  static constexpr Object kInLimit{
      kOfLimit, [](CheckReader& of, JsonProblem& problem) { return of.end_limit(problem); }, true};

  static constexpr Member kAttributes{.name = "attributes",
                                      .kinds = base::kJsonObject,
                                      .expected = kObjectOfTexts,
                                      .set =
                                          [](CheckReader& of, const JsonValue&, JsonProblem&) {
                                            of.attributes_ = &of.request_.attributes;
                                            return of.has_attributes_ = true;
                                          },
                                      .object = &kInAttributes};
  static constexpr Member kCost{"cost", base::kJsonWhole, kWholeCost,
                                base::json_into<&CheckReader::request_, &CheckRequest::cost>,
                                kMaxAmount};
  static constexpr Member kCosts{.name = "costs",
                                 .kinds = base::kJsonObject,
                                 .expected = kNamedCosts,
                                 .set =
                                     [](CheckReader& of, const JsonValue&, JsonProblem&) {
                                       of.costs_ = &of.request_.costs;
                                       return of.has_costs_ = true;
                                     },
                                 .object = &kInCosts};
  static constexpr Member kIdOf{"id", base::kJsonText, kId,
                                base::json_into<&CheckReader::request_, &CheckRequest::id>};
  static constexpr Member kHold{"hold_ms", base::kJsonWhole, kHoldMs,
                                set_time<&CheckRequest::hold, &CheckReader::has_hold_>,
                                kMostHoldMs};
  static constexpr Member kLimitOf{.name = "limit",
                                   .kinds = base::kJsonObject,
                                   .expected = kLimit,
                                   .set =
                                       [](CheckReader& of, const JsonValue&, JsonProblem&) {
                                         of.limit_words_.assign(kRequired.size(), {});
                                         return of.has_limit_ = true;
                                       },
                                   .object = &kInLimit};
  static constexpr Member kCancel[] = {kAttributes, kIdOf, kLimitOf};
  static constexpr Member kExtend[] = {kAttributes, kIdOf, kHold, kLimitOf};
  static constexpr Member kCheck[] = {
      kAttributes,
      kIdOf,
      kHold,
      kCost,
      kCosts,
      kLimitOf,
      {.name = "verb",
       .kinds = base::kJsonText,
       .expected = kVerbs,
       .set = base::json_into<&CheckReader::set_verb>,
       .one_of = kVerbNames},
      {"max_wait_ms", base::kJsonWhole, kMaxWait,
       set_time<&CheckRequest::max_wait, &CheckReader::has_max_wait_>, kMostWaitMs},
      {"wait_ms", base::kJsonWhole, kWaitNumber,
       set_time<&CheckRequest::wait, &CheckReader::has_wait_>, kMostTakeWaitMs}};
  static constexpr Member kSettle[] = {
      kAttributes,
      kIdOf,
      kCost,
      kCosts,
      kLimitOf,
      {.name = "actual",
       .kinds = base::kJsonWhole | base::kJsonObject,
       .expected = kActual,
       .set =
           [](CheckReader& of, const JsonValue& value, JsonProblem&) {
             of.costs_ = &of.request_.actual_costs;
             if (value.kind == base::kJsonWhole) of.request_.actual = value.number;
             return true;
           },
       .most = kMaxAmount,
       .required = true,
       .object = &kInCosts}};
  static constexpr Member kReport[] = {
      kAttributes,
      kCost,
      kCosts,
      {"status", base::kJsonText | base::kJsonNumber, kStatus,
       base::json_into<&CheckReader::request_, &CheckRequest::status>},
      {.name = "response",
       .kinds = base::kJsonObject,
       .expected = kObjectOfTexts,
       .set =
           [](CheckReader& of, const JsonValue&, JsonProblem&) {
             of.attributes_ = &of.request_.response.emplace();
             return true;
           },
       .object = &kInAttributes}};
};

constexpr base::JsonObject<CheckReader> CheckReader::Tables::kInBody{
    kOfBody,
    [](CheckReader& of, JsonProblem&) {
      of.prefix_.resize(of.prefix_sizes_.back());
      of.prefix_sizes_.pop_back();
      return true;
    },
    true};

// Returns the row for a request, or an array of them.
const CheckReader::Tables::Member& CheckReader::Tables::top_of(CheckKind kind) {
  constexpr auto kEnd = [](CheckReader& of, JsonProblem& problem) {
    return of.end_request(problem);
  };
  static constexpr Object kRequestOf[] = {Object(kCheck, kEnd), Object(kSettle, kEnd),
                                          Object(kReport, kEnd), Object(kCancel, kEnd),
                                          Object(kExtend, kEnd)};
  constexpr auto kElement = [](const Object& object) {
    return Member{.kinds = base::kJsonObject,
                  .expected = kRequest,
                  .set = base::json_into<&CheckReader::begin>,
                  .object = &object};
  };
  static constexpr Member kElements[] = {kElement(kRequestOf[0]), kElement(kRequestOf[1]),
                                         kElement(kRequestOf[2]), kElement(kRequestOf[3]),
                                         kElement(kRequestOf[4])};
  constexpr auto kMakeTop = [](const Member& each) {
    return Member{.kinds = base::kJsonObject | base::kJsonArray,
                  .expected = kRequests,
                  .set = base::json_into<&CheckReader::begin>,
                  .object = each.object,
                  .each = &each};
  };
  static constexpr Member kTops[] = {kMakeTop(kElements[0]), kMakeTop(kElements[1]),
                                     kMakeTop(kElements[2]), kMakeTop(kElements[3]),
                                     kMakeTop(kElements[4])};
  return kTops[static_cast<std::size_t>(kind)];
}

void write_check_schema(CheckKind kind, base::JsonWriter& json) {
  base::write_json_schema(json, CheckReader::Tables::top_of(kind));
}

std::string CheckReader::read(CheckKind kind, std::string_view body, bool may_operate,
                              const OnRequest& on_request) {
  // Room for all joined names up to the one over the bound, so that they do not move. Pages that
  // are never written take no memory.
  names_.reserve((NamedAttributes::kMost + 1) * NamedAttributes::kMostNameBytes);
  kind_ = kind;
  may_operate_ = may_operate;
  std::string error;
  const auto pass = [&](const OnRequest* receiver) {
    on_request_ = receiver;
    is_array_ = needs_operate_ = false;
    count_ = 0;
    JsonProblem problem;
    const bool is_right = json_.read(body, Tables::top_of(kind), *this, problem);
    if (!is_right) error = error_of(problem, body);
    return is_right;
  };
  if (!pass(nullptr)) return error;
  if (is_array_) {
    pass(&on_request);
  } else {
    on_request(request_, true);
  }
  return error;
}

}  // namespace sluice::server
