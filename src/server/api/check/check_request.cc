#include "server/api/check/check_request.h"

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "base/quoted.h"
#include "core/limit.h"
#include "limiter/limit_arguments.h"
#include "server/protocol/http/access.h"

namespace sluice::server {
namespace {

// The members that every limit has, in the order of the words of RL.LIMIT.
constexpr auto kRequired = std::to_array<std::string_view>({"key", "algorithm", "limit", "per"});

}  // namespace

void RequestLimit::clear() noexcept { words_.assign(kRequired.size(), {}); }

// Returns the word of a member that every limit has; null for an option.
std::string_view* RequestLimit::word_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kRequired.size(); ++i) {
    if (name == kRequired[i]) return &words_[i];
  }
  return nullptr;
}

std::optional<std::string> RequestLimit::begin(std::string_view name) {
  name_ = name;
  if (const std::string_view* const word = word_of(name)) {
    if (word->data() == nullptr) return std::nullopt;
    return base::in_quotes(name) + " is given twice; expected it once";
  }
  for (std::size_t i = kRequired.size(); i < words_.size(); i += 2) {
    if (words_[i] == name) return base::in_quotes(name) + " is given twice; expected it once";
  }
  std::string expected = "expected one of: key, algorithm, limit, per";
  bool is_known = name == "zone" || name == "starts";
  for (const core::OptionInfo& option : core::kLimitOptions) {
    is_known |= option.name == name;
    expected.append(", ").append(option.name);
  }
  if (is_known) return std::nullopt;
  return "unknown member " + base::in_quotes(name) + "; " + expected + ", zone, starts";
}

bool RequestLimit::set(std::string_view value) {
  if (std::string_view* const word = word_of(name_)) {
    *word = value;
  } else {
    words_.push_back(name_);
    words_.push_back(value);
  }
  return true;
}

Expected<Limit> RequestLimit::finish() const {
  for (std::size_t i = 0; i < kRequired.size(); ++i) {
    if (words_[i].data() != nullptr) continue;
    return Unexpected{"lacks " + base::in_quotes(kRequired[i]) + "; " + std::string(kExpected)};
  }
  const auto read = parse_limit({}, std::span(words_).subspan(1));
  if (!read) return Unexpected{read.error()};
  return read->limit;
}

namespace {

namespace json = boost::json;

// What the bodies of /v1/check, /v1/settle and /v1/report may contain, as their errors say it.
constexpr std::string_view kMembers =
    "expected one of: attributes, cost, costs, limit, verb, max_wait_ms, wait_ms";
constexpr std::string_view kSettleMembers = "expected one of: attributes, cost, costs, actual";
constexpr std::string_view kReportMembers =
    "expected one of: attributes, cost, costs, status, response";
constexpr std::string_view kStatus = "expected the status of the response, such as 401";
constexpr std::string_view kWholeCost = "expected a whole number from 0 to 4294967295";
constexpr std::string_view kNamedCosts =
    "expected an object of limits and their costs, {\"tokens\":700}";
constexpr std::string_view kActual =
    "expected the actual cost: a whole number from 0 to 4294967295, or an object of limits and "
    "their actual costs, {\"tokens\":512}";
constexpr std::int64_t kMostWaitMs = 86'400'000;
constexpr std::string_view kMaxWait =
    "expected milliseconds: a whole number from 0 to 86400000 (a day)";
constexpr std::int64_t kMostTakeWaitMs = 300'000;
constexpr std::string_view kWaitNumber =
    "expected milliseconds: a whole number from 0 to 300000 (5 minutes)";
constexpr std::string_view kVerbs =
    "expected check, peek, refund, reset, charge, take_at_most or reserve";
constexpr std::string_view kObjectOfTexts = "expected an object whose members are texts";
constexpr std::string_view kRequest = "expected a request, {\"attributes\":{...}}";

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

// Returns "LINE:COLUMN", counted from 1; columns in bytes.
std::string place(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == before.npos ? at + 1 : at - start;
  return std::to_string(line) + ":" + std::to_string(column);
}

std::string syntax_mistake(const json::error_code& error) {
  if (error == json::error::too_deep) return "nested too deep; expected at most 32 levels";
  return "not valid JSON in UTF-8 (" + error.message() + "); " + std::string(kRequest) +
         ", or an array of them";
}

}  // namespace

// Receives the parts of a body as they are read. basic_parser prescribes the names of the members;
// reading ends if one returns false.
class CheckReader::Handler {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();

  // Without a listener it only checks the body.
  Handler(CheckReader& reader, CheckKind kind, std::string_view body, bool may_operate,
          CheckListener* listener)
      : kind_(kind),
        request_(reader.request_),
        limit_(reader.limit_),
        text_(reader.text_),
        prefix_(reader.prefix_),
        body_(body),
        may_operate_(may_operate),
        listener_(listener) {}

  bool is_array() const noexcept { return is_array_; }
  bool needs_operate() const noexcept { return needs_operate_; }
  const std::string& mistake() const noexcept { return mistake_; }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& error);
  bool on_object_end(std::size_t, json::error_code& error);
  bool on_array_begin(json::error_code& error);
  bool on_array_end(std::size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view text, std::size_t, json::error_code&) { return part(text); }
  bool on_key(json::string_view text, std::size_t, json::error_code& error);
  bool on_string_part(json::string_view text, std::size_t, json::error_code&) { return part(text); }
  bool on_string(json::string_view text, std::size_t, json::error_code& error);
  bool on_number_part(json::string_view text, json::error_code&) { return part(text); }
  bool on_int64(std::int64_t number, json::string_view text, json::error_code& error) {
    return on_number(whole(text), number, error);
  }
  bool on_uint64(std::uint64_t, json::string_view text, json::error_code& error) {
    return on_number(whole(text), std::nullopt, error);
  }
  bool on_double(double, json::string_view text, json::error_code& error) {
    return on_number(whole(text), std::nullopt, error);
  }
  bool on_bool(bool value, json::error_code& error) {
    return on_other(value ? "true" : "false", value ? "true" : "false", error);
  }
  bool on_null(json::error_code& error) { return on_other("null", std::nullopt, error); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  enum class Place : std::uint8_t { kTop, kArray, kRequest, kAttributes, kBody, kCosts, kLimit };
  enum class Member : std::uint8_t {
    kAttributes,
    kCost,
    kCosts,
    kVerb,
    kMaxWait,
    kWait,
    kActual,
    kLimit,
    kStatus,
    kResponse
  };

  bool part(json::string_view text) {
    text_.append(text.data(), text.size());
    return true;
  }
  std::string_view whole(json::string_view text);
  bool fail(json::error_code& error, std::string_view where, std::string_view what,
            std::string_view right);
  bool wrong_value(json::error_code& error, std::string_view what);
  bool begin_request(json::error_code& error);
  bool end_request(json::error_code& error);
  bool on_member(std::string_view name, json::error_code& error);
  bool on_attribute_name(std::string_view name, json::error_code& error);
  bool on_limit_name(std::string_view name, json::error_code& error);
  bool on_limit_member(std::string_view name, json::error_code& error);
  bool fail_limit(json::error_code& error, std::string_view why);
  bool end_limit(json::error_code& error);
  bool check_alone(json::error_code& error);
  bool check_privilege(json::error_code& error);
  bool twice_named(json::error_code& error, std::string_view where, std::string_view name);
  bool has(Member member) const noexcept {
    return (members_ & 1U << static_cast<unsigned>(member)) != 0;
  }
  // The costs whose members are read.
  std::vector<LimitCost>& named_costs() noexcept {
    return member_ == Member::kActual ? request_.actual_costs : request_.costs;
  }
  // The attributes whose members are read.
  NamedAttributes& named_attributes() noexcept {
    return member_ == Member::kResponse ? *request_.response : request_.attributes;
  }
  std::string_view attributes_name() const noexcept {
    return member_ == Member::kResponse ? "response" : "attributes";
  }
  std::string_view costs_name() const noexcept {
    return member_ == Member::kActual ? "actual" : "costs";
  }
  bool on_number(std::string_view text, std::optional<std::int64_t> number,
                 json::error_code& error);
  bool on_other(std::string_view text, std::optional<std::string_view> value,
                json::error_code& error);
  bool open_body(json::error_code& error);
  bool add(std::optional<std::string_view> value, json::error_code& error);

  const CheckKind kind_;
  CheckRequest& request_;
  RequestLimit& limit_;
  std::string& text_;
  std::string& prefix_;
  std::string_view body_;
  const bool may_operate_;
  CheckListener* listener_;

  Place place_ = Place::kTop;
  bool is_array_ = false;
  bool needs_operate_ = false;  // the reason of the mistake
  Member member_ = Member::kAttributes;
  unsigned members_ = 0;        // bits of the members that were given
  std::size_t count_ = 0;       // of requests that have begun
  std::size_t unfinished_ = 0;  // the place in `text_` where the parts of a string begin
  std::string_view name_;       // of the current attribute or limit
  std::size_t body_depth_ = 0;  // of objects in "body", including itself
  std::size_t prefix_sizes_[CheckReader::kMostDepth + 1] = {};
  std::string mistake_;
};

// Returns a whole string, whose beginning may have been passed to on_..._part(). `text_` never
// moves while a request is read, because it has room for everything that can come.
std::string_view CheckReader::Handler::whole(json::string_view text) {
  if (text_.size() == unfinished_) {
    const std::less_equal<const char*> before;
    const bool in_body = before(body_.data(), text.data()) &&
                         before(text.data() + text.size(), body_.data() + body_.size());
    if (in_body) return {text.data(), text.size()};
  }
  text_.append(text.data(), text.size());
  const std::string_view all = std::string_view(text_).substr(unfinished_);
  unfinished_ = text_.size();
  return all;
}

bool CheckReader::Handler::fail(json::error_code& error, std::string_view where,
                                std::string_view what, std::string_view right) {
  mistake_ = "at ";
  if (is_array_ && count_ > 0) {
    mistake_.append("[").append(std::to_string(count_ - 1)).append("]");
    if (!where.empty()) mistake_ += '.';
  }
  mistake_.append(where);
  if (mistake_.size() == 3) mistake_ += "the top";
  mistake_.append(": ").append(what).append("; ").append(right);
  error = json::error::extra_data;  // ends the reading; never reported
  return false;
}

// Reports a value of a wrong type at the current place.
bool CheckReader::Handler::wrong_value(json::error_code& error, std::string_view what) {
  const std::string found = "found " + std::string(what);
  switch (place_) {
    case Place::kTop:
      return fail(error, {}, found, std::string(kRequest) + ", or an array of them");
    case Place::kArray: ++count_; return fail(error, {}, found, kRequest);
    case Place::kRequest: break;
    case Place::kAttributes:
    case Place::kBody:
      return fail(error, attributes_name(), base::in_quotes(name_) + " is " + std::string(what),
                  place_ == Place::kBody ? "expected text, a number, true, false, null or an object"
                  : name_ == "body"      ? "expected text or an object"
                                         : "expected text");
    case Place::kCosts:
      return fail(error, costs_name(), base::in_quotes(name_) + " is " + std::string(what),
                  kWholeCost);
    case Place::kLimit:
      return fail(error, "limit", base::in_quotes(name_) + " is " + std::string(what),
                  "expected text or a number");
  }
  switch (member_) {
    case Member::kAttributes:
    case Member::kResponse: return fail(error, attributes_name(), found, kObjectOfTexts);
    case Member::kStatus: return fail(error, "status", found, kStatus);
    case Member::kCost: return fail(error, "cost", found, kWholeCost);
    case Member::kCosts: return fail(error, "costs", found, kNamedCosts);
    case Member::kMaxWait: return fail(error, "max_wait_ms", found, kMaxWait);
    case Member::kWait: return fail(error, "wait_ms", found, kWaitNumber);
    case Member::kActual: return fail(error, "actual", found, kActual);
    case Member::kLimit: return fail(error, "limit", found, RequestLimit::kExpected);
    case Member::kVerb: break;
  }
  return fail(error, "verb", found, kVerbs);
}

bool CheckReader::Handler::begin_request(json::error_code& error) {
  if (++count_ > CheckReader::kMostRequests) {
    is_array_ = false;  // the error is the array's, not its member's
    return fail(error, {}, "over 1000 requests",
                "expected at most 1000; send the others in another array");
  }
  place_ = Place::kRequest;
  members_ = 0;
  request_.attributes.clear();
  request_.cost = 1;
  request_.costs.clear();
  request_.limit.reset();
  request_.verb = Verb::kTake;
  request_.max_wait = request_.wait = Duration{0};
  request_.actual = 1;
  request_.actual_costs.clear();
  request_.status.reset();
  request_.response.reset();
  text_.clear();
  unfinished_ = 0;
  return true;
}

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
