// Prints what `sluice decide` should print, computed by the oracle: requests in, decisions out. It
// created the expected halves of the vectors, and checks them. It accepts only well-formed input
// and stops with an error at anything else.
#include <boost/json.hpp>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include "core/period.h"
#include "tests/oracle/oracle.h"

namespace {

namespace json = boost::json;
using namespace sluice_oracle;

template <typename T>
T one_of(const std::map<std::string, T>& names, const json::value& name) {
  return names.at(json::value_to<std::string>(name));
}

std::uint64_t number(const json::value& value) { return json::value_to<std::uint64_t>(value); }

std::int64_t period(const json::value& text) {
  return sluice::core::parse_period(json::value_to<std::string>(text))->count();
}

// "per" with a unit of the calendar, "zone" and "starts"; or with a period.
void set_period(const json::object& o, Spec& spec) {
  static const std::map<std::string, CalendarUnit> units = {{"day", CalendarUnit::kDay},
                                                            {"week", CalendarUnit::kWeek},
                                                            {"month", CalendarUnit::kMonth},
                                                            {"year", CalendarUnit::kYear}};
  static const std::map<std::string, int> weekdays = {
      {"monday", 1}, {"tuesday", 2},  {"wednesday", 3}, {"thursday", 4},
      {"friday", 5}, {"saturday", 6}, {"sunday", 7}};
  const auto per = json::value_to<std::string>(o.at("per"));
  spec.never = per == "never";
  if (spec.never) return;
  const auto unit = units.find(per);
  if (unit == units.end()) {
    spec.per_us = sluice::core::parse_period(per)->count();
    return;
  }
  Calendar calendar{.unit = unit->second};
  if (const auto* v = o.if_contains("zone")) calendar.zone = json::value_to<std::string>(*v);
  if (const auto* v = o.if_contains("starts")) {
    if (calendar.unit == CalendarUnit::kWeek) {
      calendar.day = one_of(weekdays, *v);
    } else if (calendar.unit == CalendarUnit::kMonth) {
      calendar.day = json::value_to<int>(*v);
    } else {
      const auto date = json::value_to<std::string>(*v);
      calendar.month = std::stoi(date.substr(0, 2));
      calendar.day = std::stoi(date.substr(3));
    }
  }
  spec.per_us = usual_length_us(calendar.unit);
  spec.calendar = calendar;
}

Spec spec_of(const json::object& o) {
  static const std::map<std::string, Algorithm> algorithms = {
      {"fixed_window", Algorithm::kFixedWindow},
      {"sliding_window_log", Algorithm::kSlidingWindowLog},
      {"sliding_window_counter", Algorithm::kSlidingWindowCounter},
      {"sliding_window_hybrid", Algorithm::kSlidingWindowHybrid},
      {"leaky_bucket", Algorithm::kLeakyBucket},
      {"token_bucket", Algorithm::kTokenBucket},
      {"gcra", Algorithm::kGcra},
      {"budget", Algorithm::kBudget}};
  Spec spec;
  spec.algorithm = one_of(algorithms, o.at("algorithm"));
  spec.limit = number(o.at("limit"));
  set_period(o, spec);
  if (const auto* v = o.if_contains("burst")) spec.burst = number(*v);
  if (const auto* v = o.if_contains("slices")) spec.slices = number(*v);
  if (const auto* v = o.if_contains("align")) {
    spec.align =
        one_of<Align>({{"first_request", Align::kFirstRequest}, {"clock", Align::kClock}}, *v);
  }
  if (const auto* v = o.if_contains("weighting")) {
    spec.weighting =
        one_of<Weighting>({{"linear", Weighting::kLinear}, {"none", Weighting::kNone}}, *v);
  }
  if (const auto* v = o.if_contains("mode")) {
    spec.mode = one_of<Mode>({{"meter", Mode::kMeter}, {"queue", Mode::kQueue}}, *v);
  }
  if (const auto* v = o.if_contains("refill")) {
    spec.refill =
        one_of<Refill>({{"continuous", Refill::kContinuous}, {"interval", Refill::kInterval}}, *v);
  }
  if (const auto* v = o.if_contains("on_expiry")) {
    spec.on_expiry =
        one_of<OnExpiry>({{"charge", OnExpiry::kCharge}, {"release", OnExpiry::kRelease}}, *v);
  }
  if (const auto* v = o.if_contains("holds")) spec.holds = number(*v);
  if (const auto* v = o.if_contains("remember")) spec.remember_us = period(*v);
  if (!is_valid(spec)) throw std::invalid_argument("a limit that may not be made");
  return spec;
}

Verb verb_of(const json::object& request) {
  const json::value* const verb = request.if_contains("verb");
  if (verb == nullptr) return Verb::kTake;
  return one_of<Verb>({{"take", Verb::kTake},
                       {"peek", Verb::kPeek},
                       {"refund", Verb::kRefund},
                       {"reset", Verb::kReset},
                       {"charge", Verb::kCharge},
                       {"take_at_most", Verb::kTakeAtMost},
                       {"reserve", Verb::kReserve},
                       {"hold", Verb::kHold},
                       {"settle", Verb::kSettle},
                       {"cancel", Verb::kCancel},
                       {"extend", Verb::kExtend}},
                      *verb);
}

Action action_of(const json::object& request) {
  const json::value* const wait = request.if_contains("max_wait_us");
  Action action{verb_of(request), wait == nullptr ? 0 : json::value_to<std::int64_t>(*wait)};
  if (const auto* id = request.if_contains("id")) action.id = json::value_to<std::string>(*id);
  if (const auto* ttl = request.if_contains("ttl")) action.ttl_us = period(*ttl);
  return action;
}

// The cost of a charge; of a settlement the actual amount.
std::uint64_t cost_of(const json::object& request, const json::object& charge) {
  if (const auto* actual = request.if_contains("actual")) return number(*actual);
  const auto* cost = charge.if_contains("cost");
  return cost == nullptr ? 1 : number(*cost);
}

void print_member(const char* name, std::optional<std::int64_t> value) {
  if (value) std::cout << ",\"" << name << "\":" << *value;
}

void print(const Answer& answer, const Action& action) {
  std::cout << "{\"outcome\":\"" << (answer.allowed ? "allowed" : "denied") << "\",\"reason\":\""
            << answer.reason << '"';
  if (action.id) std::cout << ",\"id\":" << json::serialize(json::string(*action.id));
  if (answer.repeated) std::cout << ",\"repeated\":true";
  if (answer.late) std::cout << ",\"late\":true";
  if (answer.ends_after_us > 0) print_member("ends_after_us", answer.ends_after_us);
  print_member("retry_after_us", answer.retry_after_us);
  print_member("delay_us", answer.delay_us);
  if (answer.taken) std::cout << ",\"taken\":" << *answer.taken;
  std::cout << ",\"limits\":[";
  const char* separator = "";
  for (const LimitAnswer& limit : answer.limits) {
    std::cout << separator << "{\"limit\":" << limit.limit << ",\"remaining\":" << limit.remaining;
    print_member("reset_after_us", limit.reset_after_us);
    print_member("retry_after_us", limit.retry_after_us);
    std::cout << '}';
    separator = ",";
  }
  std::cout << "]}\n";
}

void answer_all() {
  Oracle oracle;
  for (std::string line; std::getline(std::cin, line);) {
    const json::value request = json::parse(line);
    const json::object& o = request.as_object();
    std::vector<Charge> charges;
    for (const json::value& charge : o.at("charges").as_array()) {
      const json::object& c = charge.as_object();
      charges.push_back({json::value_to<std::string>(c.at("key")),
                         spec_of(c.at("limit").as_object()), cost_of(o, c)});
    }
    const Action action = action_of(o);
    print(oracle.apply(action, charges, json::value_to<std::int64_t>(o.at("at_us"))), action);
  }
}

}  // namespace

int main() {
  try {
    answer_all();
  } catch (const std::exception& error) {
    std::cerr << "oracle_decide: " << error.what() << "\n";
    return 1;
  }
}
