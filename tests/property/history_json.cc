#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "tests/property/history.h"

namespace sluice_property {
namespace {

using sluice_oracle::Spec;

const char* name_of(sluice_oracle::Verb verb) {
  switch (verb) {
    case sluice_oracle::Verb::kTake: return "take";
    case sluice_oracle::Verb::kPeek: return "peek";
    case sluice_oracle::Verb::kRefund: return "refund";
    case sluice_oracle::Verb::kReset: return "reset";
    case sluice_oracle::Verb::kCharge: return "charge";
    case sluice_oracle::Verb::kTakeAtMost: return "take_at_most";
    case sluice_oracle::Verb::kReserve: return "reserve";
    case sluice_oracle::Verb::kHold: return "hold";
    case sluice_oracle::Verb::kSettle: return "settle";
    case sluice_oracle::Verb::kCancel: return "cancel";
    case sluice_oracle::Verb::kExtend: return "extend";
  }
  std::abort();
}

const char* name_of(sluice_oracle::Algorithm algorithm) {
  switch (algorithm) {
    case sluice_oracle::Algorithm::kFixedWindow: return "fixed_window";
    case sluice_oracle::Algorithm::kSlidingWindowLog: return "sliding_window_log";
    case sluice_oracle::Algorithm::kSlidingWindowCounter: return "sliding_window_counter";
    case sluice_oracle::Algorithm::kSlidingWindowHybrid: return "sliding_window_hybrid";
    case sluice_oracle::Algorithm::kLeakyBucket: return "leaky_bucket";
    case sluice_oracle::Algorithm::kTokenBucket: return "token_bucket";
    case sluice_oracle::Algorithm::kGcra: return "gcra";
    case sluice_oracle::Algorithm::kConcurrency: return "concurrency";
    case sluice_oracle::Algorithm::kBudget: return "budget";
  }
  std::abort();
}

std::string json_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(byte));
      out += buffer;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string duration_text(std::int64_t us) {
  if (us % 1000000 == 0) return std::to_string(us / 1000000) + "s";
  if (us % 1000 == 0) return std::to_string(us / 1000) + "ms";
  return std::to_string(us) + "us";
}

std::string name_of(sluice_oracle::CalendarUnit unit) {
  const char* const names[] = {"day", "week", "month", "year"};
  return names[static_cast<int>(unit)];
}

std::string starts_of(const sluice_oracle::Calendar& calendar) {
  using sluice_oracle::CalendarUnit;
  const char* const weekdays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                  "friday", "saturday", "sunday"};
  char text[32] = "";
  if (calendar.unit == CalendarUnit::kWeek) {
    std::snprintf(text, sizeof text, ",\"starts\":\"%s\"", weekdays[calendar.day - 1]);
  } else if (calendar.unit == CalendarUnit::kMonth) {
    std::snprintf(text, sizeof text, ",\"starts\":%d", calendar.day);
  } else if (calendar.unit == CalendarUnit::kYear) {
    std::snprintf(text, sizeof text, ",\"starts\":\"%02d-%02d\"", calendar.month, calendar.day);
  }
  return text;
}

}  // namespace

std::string to_json(const Spec& spec) {
  std::ostringstream out;
  out << "{\"algorithm\":\"" << name_of(spec.algorithm) << "\",\"limit\":" << spec.limit
      << (holds_permits(spec) ? ",\"lease\":\"" : ",\"per\":\"")
      << (spec.calendar ? name_of(spec.calendar->unit)
          : spec.never  ? "never"
                        : duration_text(spec.per_us))
      << '"';
  if (spec.calendar)
    out << ",\"zone\":\"" << spec.calendar->zone << '"' << starts_of(*spec.calendar);
  if (spec.burst) out << ",\"burst\":" << *spec.burst;
  if (spec.slices) out << ",\"slices\":" << *spec.slices;
  if (spec.align) {
    const bool clock = spec.align == sluice_oracle::Align::kClock;
    out << ",\"align\":\"" << (clock ? "clock" : "first_request") << '"';
  }
  if (spec.weighting) {
    const bool none = spec.weighting == sluice_oracle::Weighting::kNone;
    out << ",\"weighting\":\"" << (none ? "none" : "linear") << '"';
  }
  if (spec.mode) {
    const bool queue = spec.mode == sluice_oracle::Mode::kQueue;
    out << ",\"mode\":\"" << (queue ? "queue" : "meter") << '"';
  }
  if (spec.refill) {
    const bool interval = spec.refill == sluice_oracle::Refill::kInterval;
    out << ",\"refill\":\"" << (interval ? "interval" : "continuous") << '"';
  }
  if (spec.on_expiry) {
    const bool releases = spec.on_expiry == sluice_oracle::OnExpiry::kRelease;
    out << ",\"on_expiry\":\"" << (releases ? "release" : "charge") << '"';
  }
  if (spec.remember_us) out << ",\"remember\":\"" << duration_text(*spec.remember_us) << '"';
  if (spec.holds) out << ",\"holds\":" << *spec.holds;
  out << '}';
  return out.str();
}

std::string to_json(const Step& step) {
  std::ostringstream out;
  out << "{\"at_us\":" << step.at_us << ",\"verb\":\"" << name_of(step.verb) << '"';
  if (step.verb == sluice_oracle::Verb::kReserve) out << ",\"max_wait_us\":" << step.max_wait_us;
  if (step.id) out << ",\"id\":" << json_quoted(*step.id);
  if (step.ttl_us > 0) out << ",\"ttl\":\"" << duration_text(step.ttl_us) << '"';
  out << ",\"charges\":[";
  const char* separator = "";
  for (const sluice_oracle::Charge& charge : step.charges) {
    out << separator << "{\"key\":" << json_quoted(charge.key) << ",\"cost\":" << charge.cost
        << (charge.alternative ? ",\"alternative\":true" : "")
        << ",\"limit\":" << to_json(charge.spec) << '}';
    separator = ",";
  }
  out << "]}";
  return out.str();
}

std::string to_json_lines(const History& history) {
  std::string out;
  for (const Step& step : history) out += to_json(step) + "\n";
  return out;
}

}  // namespace sluice_property
