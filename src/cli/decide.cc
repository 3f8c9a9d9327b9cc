#include "cli/decide.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cli/json_keys.h"
#include "core/period.h"
#include "core/quoted.h"

namespace sluice::cli {
namespace {

namespace json = boost::json;

// A line that is not valid: where, what, and what would be right. Stays within this file.
struct Mistake : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Mistake(where.empty() ? what : where + ": " + what);
}

std::string list(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string child(const std::string& where, std::string_view name) {
  return where.empty() ? std::string(name) : where + "." + std::string(name);
}

const json::object& object_at(const json::value& value, const std::string& where,
                              std::initializer_list<std::string_view> keys) {
  const json::object* const object = value.if_object();
  if (object == nullptr) fail(where, "must be an object");
  for (const auto& member : *object) {
    const std::string_view name(member.key().data(), member.key().size());
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) {
      fail(where, "unknown key " + core::in_quotes(name) + "; expected one of: " + list(keys));
    }
  }
  return *object;
}

std::uint64_t integer_at(const json::value& value, const std::string& where, std::uint64_t most) {
  const std::string right = "must be a whole number from 0 to " + std::to_string(most);
  if (const std::int64_t* const number = value.if_int64()) {
    if (*number < 0 || static_cast<std::uint64_t>(*number) > most) {
      fail(where, std::to_string(*number) + " is out of range; " + right);
    }
    return static_cast<std::uint64_t>(*number);
  }
  if (const std::uint64_t* const number = value.if_uint64()) {
    fail(where, std::to_string(*number) + " is out of range; " + right);
  }
  fail(where, right);
}

std::string_view text_at(const json::value& value, const std::string& where) {
  const json::string* const text = value.if_string();
  if (text == nullptr) fail(where, "must be text");
  return {text->data(), text->size()};
}

const json::value& required(const json::object& object, const std::string& where,
                            std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) fail(child(where, name), "is missing");
  return *value;
}

// Reads an optional member whose text is one of two names.
template <typename Enum>
std::optional<Enum> choice(const json::object& object, const std::string& where,
                           std::string_view name,
                           const std::array<std::pair<std::string_view, Enum>, 2>& names) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = text_at(*value, child(where, name));
  for (const auto& [spelling, meaning] : names) {
    if (text == spelling) return meaning;
  }
  fail(child(where, name), core::in_quotes(text) + " is unknown; expected " +
                               std::string(names[0].first) + " or " + std::string(names[1].first));
}

std::optional<std::uint64_t> optional_integer(const json::object& object, const std::string& where,
                                              std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  return integer_at(*value, child(where, name), kMaxUnits);
}

Algorithm algorithm_at(const json::value& value, const std::string& where) {
  const std::string_view name = text_at(value, where);
  if (const auto algorithm = algorithm_from(name)) return *algorithm;
  fail(where,
       core::in_quotes(name) +
           " is unknown; expected fixed_window, sliding_window_log, "
           "sliding_window_counter, sliding_window_hybrid, leaky_bucket, token_bucket or gcra");
}

Duration period_at(const json::value& value, const std::string& where) {
  if (!value.is_string()) fail(where, "must be text such as \"60s\" or \"500ms\"");
  const Expected<Duration> period = core::parse_period(text_at(value, where));
  if (!period) fail(where, period.error());
  return *period;
}

Limit limit_at(const json::value& value, const std::string& where) {
  const json::object& object = object_at(
      value, where,
      {"algorithm", "limit", "per", "burst", "align", "slices", "weighting", "mode", "refill"});
  LimitSpec spec;
  spec.algorithm = algorithm_at(required(object, where, "algorithm"), child(where, "algorithm"));
  spec.limit = integer_at(required(object, where, "limit"), child(where, "limit"), kMaxUnits);
  spec.per = period_at(required(object, where, "per"), child(where, "per"));
  spec.burst = optional_integer(object, where, "burst");
  spec.slices = optional_integer(object, where, "slices");
  spec.align = choice<Align>(object, where, "align",
                             {{{"first_request", Align::kFirstRequest}, {"clock", Align::kClock}}});
  spec.weighting = choice<Weighting>(
      object, where, "weighting", {{{"linear", Weighting::kLinear}, {"none", Weighting::kNone}}});
  spec.mode = choice<LeakyMode>(object, where, "mode",
                                {{{"meter", LeakyMode::kMeter}, {"queue", LeakyMode::kQueue}}});
  spec.refill =
      choice<Refill>(object, where, "refill",
                     {{{"continuous", Refill::kContinuous}, {"interval", Refill::kInterval}}});
  const Expected<Limit> limit = Limit::make(spec);
  if (!limit) fail(where, limit.error());
  return *limit;
}

Charge charge_at(const json::value& value, const std::string& where) {
  const json::object& object = object_at(value, where, {"key", "cost", "limit"});
  const std::string_view key = text_at(required(object, where, "key"), child(where, "key"));
  const Limit limit = limit_at(required(object, where, "limit"), child(where, "limit"));
  return {key, limit, optional_integer(object, where, "cost").value_or(1)};
}

Verb verb_at(const json::object& object) {
  const json::value* const value = object.if_contains("verb");
  if (value == nullptr) return Verb::kTake;
  const std::string_view name = text_at(*value, "verb");
  if (name == "take") return Verb::kTake;
  if (name == "peek") return Verb::kPeek;
  if (name == "refund") return Verb::kRefund;
  if (name == "reset") return Verb::kReset;
  fail("verb", core::in_quotes(name) + " is unknown; expected take, peek, refund or reset");
}

void refuse_one_counter_with_two_limits(const std::vector<Charge>& charges) {
  for (std::size_t i = 0; i < charges.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (charges[i].key != charges[j].key || charges[i].limit == charges[j].limit ||
          charges[i].limit.algorithm() != charges[j].limit.algorithm()) {
        continue;
      }
      fail("charges[" + std::to_string(i) + "]",
           "names the counter of charges[" + std::to_string(j) +
               "] (same key and algorithm) with other numbers; give each limit a key of its own");
    }
  }
}

std::vector<Charge> charges_at(const json::value& value) {
  const json::array* const array = value.if_array();
  if (array == nullptr || array->empty() || array->size() > kMaxCharges) {
    fail("charges", "must be a list of 1 to " + std::to_string(kMaxCharges) + " charges");
  }
  std::vector<Charge> charges;
  for (std::size_t i = 0; i < array->size(); ++i) {
    charges.push_back(charge_at((*array)[i], "charges[" + std::to_string(i) + "]"));
  }
  refuse_one_counter_with_two_limits(charges);
  return charges;
}

void append_member(std::string& out, std::string_view name, std::uint64_t number) {
  out.append(",\"").append(name).append("\":").append(std::to_string(number));
}

void append_wait(std::string& out, std::string_view name, std::optional<Duration> wait) {
  if (wait) append_member(out, name, static_cast<std::uint64_t>(wait->count()));
}

std::string to_json(const Decision& all, const std::vector<Decision>& each) {
  std::string out = "{\"outcome\":\"";
  out.append(to_string(all.outcome)).append("\",\"reason\":\"").append(to_string(all.reason));
  out += '"';
  append_wait(out, "retry_after_us", all.retry_after);
  append_wait(out, "delay_us", all.delay);
  out += ",\"limits\":[";
  for (const Decision& d : each) {
    if (&d != each.data()) out += ',';
    out.append("{\"limit\":").append(std::to_string(d.limit));
    append_member(out, "remaining", d.remaining);
    append_wait(out, "reset_after_us", d.reset_after);
    append_wait(out, "retry_after_us", d.retry_after);
    out += '}';
  }
  return out + "]}";
}

bool store_failed(Reason reason) noexcept {
  return reason == Reason::kStoreError || reason == Reason::kStoreTimeout ||
         reason == Reason::kForeignValue;
}

json::value parse(std::string_view line) {
  json::parser parser;
  json::error_code error;
  const std::size_t read = parser.write_some(line.data(), line.size(), error);
  if (!error && read < line.size()) error = json::error::extra_data;
  if (error) {
    fail("column " + std::to_string(read + 1),
         "not valid JSON (" + error.message() + "); expected one object on the line");
  }
  if (const auto duplicate = find_duplicate_key(line)) {
    fail(duplicate->where,
         "the key " + core::in_quotes(duplicate->key) + " is given twice; give it once");
  }
  return parser.release();
}

}  // namespace

std::string DecisionFilter::answer(std::string_view line) {
  ++line_;
  try {
    const json::value value = parse(line);
    const json::object& request = object_at(value, "", {"at_us", "verb", "charges"});
    const auto last = static_cast<std::uint64_t>(kLastInstant.time_since_epoch().count());
    const std::uint64_t at_us = integer_at(required(request, "", "at_us"), "at_us", last);
    const Verb verb = verb_at(request);
    const std::vector<Charge> charges = charges_at(required(request, "", "charges"));
    std::vector<Decision> each(charges.size());
    const Instant at{Duration{static_cast<Duration::rep>(at_us)}};
    const Decision all = store_.apply(verb, charges, at, each);
    if (store_failed(all.reason)) return error(failure(all.reason));
    return to_json(all, each);
  } catch (const Mistake& mistake) {
    return error(mistake.what());
  }
}

std::string DecisionFilter::refuse_long_line() {
  ++line_;
  return error("the line is too long; at most " + std::to_string(kMaxLine) + " bytes");
}

std::string DecisionFilter::failure(Reason reason) const {
  std::string text = "the store could not decide: " + std::string(to_string(reason));
  if (const std::string why = why_ ? why_() : std::string(); !why.empty()) {
    text.append(" (").append(why).append(")");
  }
  return text;
}

std::string DecisionFilter::error(const std::string& text) {
  had_errors_ = true;
  json::object object;
  object["error"] = text;
  object["line"] = line_;
  return json::serialize(object);
}

}  // namespace sluice::cli
