#include "tests/property/history.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "sluice/limiter.h"

namespace sluice_property {
namespace {

using sluice_oracle::Answer;
using sluice_oracle::LimitAnswer;
using sluice_oracle::Spec;

sluice::Algorithm algorithm_of(sluice_oracle::Algorithm algorithm) {
  switch (algorithm) {
    case sluice_oracle::Algorithm::kFixedWindow: return sluice::Algorithm::kFixedWindow;
    case sluice_oracle::Algorithm::kSlidingWindowLog: return sluice::Algorithm::kSlidingWindowLog;
    case sluice_oracle::Algorithm::kSlidingWindowCounter:
      return sluice::Algorithm::kSlidingWindowCounter;
    case sluice_oracle::Algorithm::kSlidingWindowHybrid:
      return sluice::Algorithm::kSlidingWindowHybrid;
    case sluice_oracle::Algorithm::kLeakyBucket: return sluice::Algorithm::kLeakyBucket;
    case sluice_oracle::Algorithm::kTokenBucket: return sluice::Algorithm::kTokenBucket;
    case sluice_oracle::Algorithm::kGcra: return sluice::Algorithm::kGcra;
    case sluice_oracle::Algorithm::kConcurrency: return sluice::Algorithm::kConcurrency;
    case sluice_oracle::Algorithm::kBudget: return sluice::Algorithm::kBudget;
  }
  std::abort();
}

const sluice::Calendar* calendar_of(const sluice_oracle::Calendar& calendar) {
  return *sluice::Calendar::make({.unit = static_cast<sluice::CalendarUnit>(calendar.unit),
                                  .zone = calendar.zone,
                                  .day = static_cast<unsigned>(calendar.day),
                                  .month = static_cast<unsigned>(calendar.month)});
}

const char* name_of(sluice::Reason reason) {
  switch (reason) {
    case sluice::Reason::kOk: return "ok";
    case sluice::Reason::kOver: return "over";
    case sluice::Reason::kLimited: return "limited";
    case sluice::Reason::kNever: return "never";
    case sluice::Reason::kBlocked: return "blocked";
    case sluice::Reason::kConflict: return "conflict";
    case sluice::Reason::kTooManyHolds: return "too_many_holds";
    case sluice::Reason::kGone: return "gone";
    case sluice::Reason::kInvalid: return "invalid";
    case sluice::Reason::kStoreTimeout: return "store_timeout";
    case sluice::Reason::kStoreError: return "store_error";
    case sluice::Reason::kForeignValue: return "foreign_value";
    default: return "some other reason";
  }
}

std::optional<std::int64_t> ticks(const std::optional<sluice::Duration>& wait) {
  if (!wait) return std::nullopt;
  return wait->count();
}

std::string show(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "none";
}

// Collects "field: oracle X, store Y" for the fields that differ.
class Differences {
 public:
  void compare(const std::string& field, const std::string& expected, const std::string& actual) {
    if (expected == actual) return;
    out_ << "  " << field << ": oracle " << expected << ", store " << actual << "\n";
  }
  void compare(const std::string& field, std::optional<std::int64_t> expected,
               std::optional<std::int64_t> actual) {
    compare(field, show(expected), show(actual));
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void compare_charge(const std::string& name, const LimitAnswer& expected,
                    const sluice::Decision& actual, Differences& out) {
  out.compare(name + ".outcome", std::string(expected.denied ? "denied" : "allowed"),
              std::string(actual.allowed() ? "allowed" : "denied"));
  out.compare(name + ".reason", expected.reason, std::string(name_of(actual.reason)));
  out.compare(name + ".limit", std::to_string(expected.limit), std::to_string(actual.capacity));
  out.compare(name + ".remaining", std::to_string(expected.remaining),
              std::to_string(actual.remaining));
  out.compare(name + ".spent", std::to_string(expected.spent), std::to_string(actual.spent));
  out.compare(name + ".held", std::to_string(expected.held), std::to_string(actual.held));
  out.compare(name + ".reset_after", expected.reset_after_us, actual.reset_after.count());
  out.compare(name + ".retry_after", expected.retry_after_us, ticks(actual.retry_after));
  out.compare(name + ".delay", expected.delay_us, ticks(actual.delay));
  out.compare(name + ".repeated", expected.repeated, actual.repeated);
  out.compare(name + ".late", expected.late, actual.late);
  out.compare(name + ".passed_over", expected.passed_over, actual.passed_over);
  out.compare(name + ".ends_after", expected.ends_after_us, actual.ends_after.count());
}

// The request's numbers are those of a limit with the least remaining, among those that deny if
// any.
bool is_of_a_tightest(const Answer& expected, const sluice::Decision& request) {
  std::uint64_t least = UINT64_MAX;
  const auto counts = [&](const LimitAnswer& limit) {
    return limit.denied == !expected.allowed && !limit.passed_over;
  };
  for (const LimitAnswer& limit : expected.limits) {
    if (counts(limit)) least = std::min(least, limit.remaining);
  }
  return std::any_of(expected.limits.begin(), expected.limits.end(), [&](const LimitAnswer& limit) {
    return counts(limit) && limit.remaining == least && request.remaining == least &&
           request.capacity == limit.limit && request.spent == limit.spent &&
           request.held == limit.held && request.reset_after.count() == limit.reset_after_us;
  });
}

// The reason of a request that some limits deny by their units, and some by their holds, is that of
// a limit with the least remaining, the first of them.
std::string reason_of(const Answer& expected) {
  if (expected.reason != "limited" && expected.reason != "too_many_holds") return expected.reason;
  const LimitAnswer* tightest = nullptr;
  for (const LimitAnswer& limit : expected.limits) {
    const bool is_tighter = tightest == nullptr || limit.remaining < tightest->remaining;
    if (limit.denied && is_tighter) tightest = &limit;
  }
  return tightest->reason;
}

}  // namespace

sluice::LimitSpec limit_spec_of(const Spec& spec) {
  sluice::LimitSpec out;
  out.algorithm = algorithm_of(spec.algorithm);
  out.limit = spec.limit;
  out.per = spec.never ? sluice::kNeverEnds : sluice::Duration{spec.per_us};
  if (spec.calendar) out.calendar = calendar_of(*spec.calendar);
  out.burst = spec.burst;
  out.slices = spec.slices;
  if (spec.align) {
    out.align = spec.align == sluice_oracle::Align::kClock ? sluice::Align::kClock
                                                           : sluice::Align::kFirstRequest;
  }
  if (spec.on_expiry) {
    out.on_expiry = spec.on_expiry == sluice_oracle::OnExpiry::kCharge ? sluice::OnExpiry::kCharge
                                                                       : sluice::OnExpiry::kRelease;
  }
  out.holds = spec.holds;
  if (spec.remember_us) out.remember = std::chrono::milliseconds{*spec.remember_us / 1000};
  if (spec.weighting) {
    out.weighting = spec.weighting == sluice_oracle::Weighting::kNone ? sluice::Weighting::kNone
                                                                      : sluice::Weighting::kLinear;
  }
  if (spec.mode) {
    out.mode = spec.mode == sluice_oracle::Mode::kQueue ? sluice::LeakyMode::kQueue
                                                        : sluice::LeakyMode::kMeter;
  }
  if (spec.refill) {
    out.refill = spec.refill == sluice_oracle::Refill::kInterval ? sluice::Refill::kInterval
                                                                 : sluice::Refill::kContinuous;
  }
  return out;
}

sluice::Limit limit_of(const Spec& spec) {
  const sluice::Expected<sluice::Limit> limit = sluice::Limit::make(limit_spec_of(spec));
  if (!limit) {
    std::fprintf(stderr, "refused: %s: %s\n", to_json(spec).c_str(), limit.error().c_str());
    std::abort();
  }
  return *limit;
}

sluice::Verb verb_of(sluice_oracle::Verb verb) {
  switch (verb) {
    case sluice_oracle::Verb::kTake: return sluice::Verb::kTake;
    case sluice_oracle::Verb::kPeek: return sluice::Verb::kPeek;
    case sluice_oracle::Verb::kRefund: return sluice::Verb::kRefund;
    case sluice_oracle::Verb::kReset: return sluice::Verb::kReset;
    case sluice_oracle::Verb::kCharge: return sluice::Verb::kCharge;
    case sluice_oracle::Verb::kTakeAtMost: return sluice::Verb::kTakeAtMost;
    case sluice_oracle::Verb::kReserve: return sluice::Verb::kReserve;
    case sluice_oracle::Verb::kHold: return sluice::Verb::kHold;
    case sluice_oracle::Verb::kSettle: return sluice::Verb::kSettle;
    case sluice_oracle::Verb::kCancel: return sluice::Verb::kCancel;
    case sluice_oracle::Verb::kExtend: return sluice::Verb::kExtend;
  }
  std::abort();
}

sluice_oracle::Action oracle_action(const Step& step) {
  sluice_oracle::Action action(step.verb, step.max_wait_us);
  action.id = step.id;
  action.ttl_us = step.ttl_us;
  return action;
}

sluice::Action action_of(const Step& step) {
  return {verb_of(step.verb), sluice::Duration{step.max_wait_us + step.ttl_us}};
}

std::vector<sluice::Charge> charges_of(const Step& step, const sluice::PermitId* id) {
  std::vector<sluice::Charge> charges;
  for (const sluice_oracle::Charge& charge : step.charges) {
    charges.push_back({charge.key, limit_of(charge.spec), charge.cost});
    charges.back().permit = id;
    charges.back().alternative = charge.alternative;
    if (step.id) charges.back().id_text = *step.id;
  }
  return charges;
}

Answered apply(sluice::Store& store, const Step& step) {
  const sluice::PermitId id = sluice::PermitId::named(step.id.value_or(""));
  const std::vector<sluice::Charge> charges = charges_of(step, step.id ? &id : nullptr);
  Answered answered;
  answered.each.resize(charges.size());
  answered.request = sluice::Limiter(store).apply(action_of(step), charges, answered.each,
                                                  sluice::Instant{sluice::Duration{step.at_us}});
  return answered;
}

std::string difference(const Answer& expected, const Answered& actual) {
  Differences out;
  const sluice::Decision& request = actual.request;
  out.compare("outcome", std::string(expected.allowed ? "allowed" : "denied"),
              std::string(request.allowed() ? "allowed" : "denied"));
  out.compare("reason", reason_of(expected), std::string(name_of(request.reason)));
  out.compare("taken", std::to_string(expected.taken.value_or(0)), std::to_string(request.taken));
  out.compare("retry_after", expected.retry_after_us, ticks(request.retry_after));
  out.compare("delay", expected.delay_us, ticks(request.delay));
  out.compare("repeated", expected.repeated, request.repeated);
  out.compare("late", expected.late, request.late);
  out.compare("ends_after", expected.ends_after_us, request.ends_after.count());
  for (std::size_t i = 0; i < expected.limits.size(); ++i) {
    compare_charge("limits[" + std::to_string(i) + "]", expected.limits[i], actual.each[i], out);
  }
  if (!expected.limits.empty() && !is_of_a_tightest(expected, request)) {
    out.compare("numbers of the request", std::string("those of a tightest limit"),
                "limit " + std::to_string(request.capacity) + ", remaining " +
                    std::to_string(request.remaining) + ", spent " + std::to_string(request.spent) +
                    ", held " + std::to_string(request.held) + ", reset_after " +
                    std::to_string(request.reset_after.count()));
  }
  return out.text();
}

std::vector<Answer> oracle_answers(const History& history) {
  sluice_oracle::Oracle oracle;
  std::vector<Answer> answers;
  for (const Step& step : history) {
    answers.push_back(oracle.apply(oracle_action(step), step.charges, step.at_us));
  }
  return answers;
}

std::optional<Disagreement> first_disagreement(const History& history,
                                               const std::vector<Answer>& expected,
                                               const StoreMaker& make_store) {
  const std::unique_ptr<sluice::Store> store = make_store();
  for (std::size_t i = 0; i < history.size(); ++i) {
    std::string what = difference(expected[i], apply(*store, history[i]));
    if (!what.empty()) return Disagreement{i, std::move(what)};
  }
  return std::nullopt;
}

}  // namespace sluice_property
