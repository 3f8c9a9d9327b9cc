#include <cstdint>
#include <optional>
#include <string>

#include "core/calendar_text.h"
#include "core/limit_options.h"
#include "core/period.h"
#include "limiter/reason_report.h"
#include "server/api/resp/arguments.h"
#include "server/api/resp/command_handler.h"
#include "server/api/resp/decision_reply.h"
#include "sluice/permit.h"

// The commands that decide by a limit in the request, such as RL.LIMIT.
namespace sluice::server::resp::commands {
namespace {

constexpr auto kMost = static_cast<std::int64_t>(kMaxUnits);

struct LimitRequest {
  CounterVerb verb;
  LimitSpec spec;
  std::optional<CalendarSpec> calendar = {};
  std::optional<std::string_view> zone = {}, starts = {};
  std::uint64_t cost = 1;
  std::uint64_t actual = 1;
  Duration max_wait{0};
  bool has_required = false;
};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return out;
}

std::optional<std::uint64_t> read_units(std::string_view name, std::string_view value,
                                        std::uint64_t least, Reply& reply) {
  const auto number = read_number(value, {name, static_cast<std::int64_t>(least), kMost}, reply);
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

// Returns the index of a word, which is the value of its enumerator.
std::optional<std::uint64_t> read_word(const core::OptionInfo& option, std::string_view value,
                                       Reply& reply) {
  for (std::size_t i = 0; i < option.words.size(); ++i) {
    if (same_word(value, option.words[i])) return i;
  }
  reply.error("ERR " + upper(option.name) + ": there is no " + shown(value) + "; expected " +
              core::list_of(option.words, "or"));
  return std::nullopt;
}

void refuse_option(std::string_view name, const CounterVerb& verb, Reply& reply) {
  std::string names;
  for (const core::OptionInfo& option : core::kLimitOptions) {
    names.append(names.empty() ? "" : ", ").append(upper(option.name));
  }
  reply.error("ERR there is no option " + shown(name) + "; expected " + names +
              ", ZONE, STARTS or " + std::string(verb.cost_word()) +
              (verb.verb == Verb::kReserve ? " or MAXWAIT"
               : verb.settles              ? " or ACTUAL"
                                           : ""));
}

bool read_option(std::string_view name, std::string_view value, LimitRequest& request,
                 Reply& reply) {
  const CounterVerb& verb = request.verb;
  const bool is_required = !verb.required().empty() && same_word(name, verb.required());
  request.has_required |= is_required;
  if (is_required && verb.verb == Verb::kReserve) {
    const auto wait = read_max_wait(value, reply);
    if (wait) request.max_wait = *wait;
    return wait.has_value();
  }
  const bool is_actual = is_required && verb.settles;
  if (is_actual || same_word(name, verb.cost_word())) {
    const auto units = read_units(is_actual ? "ACTUAL" : verb.cost_word(), value, 0, reply);
    if (units) (is_actual ? request.actual : request.cost) = *units;
    return units.has_value();
  }
  for (const core::OptionInfo& option : core::kLimitOptions) {
    if (!same_word(name, option.name)) continue;
    const auto read = option.words.empty()
                          ? read_units(upper(option.name), value, option.least, reply)
                          : read_word(option, value, reply);
    if (read) core::set_value(request.spec, option.option, *read);
    return read.has_value();
  }
  const bool is_zone = same_word(name, "ZONE");
  if (is_zone || same_word(name, "STARTS")) {
    (is_zone ? request.zone : request.starts) = value;
    return true;
  }
  refuse_option(name, verb, reply);
  return false;
}

bool read_options(std::span<const std::string_view> words, LimitRequest& request, Reply& reply) {
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) {
      reply.error("ERR the option " + shown(words[i]) + " lacks its value");
      return false;
    }
    for (std::size_t before = 0; before < i; before += 2) {
      if (!same_word(words[before], words[i])) continue;
      reply.error("ERR the option " + shown(words[i]) + " is given twice");
      return false;
    }
    if (!read_option(words[i], words[i + 1], request, reply)) return false;
  }
  return true;
}

bool read_period(std::string_view word, LimitRequest& request, Reply& reply) {
  if (const auto unit = core::calendar_unit_from(word)) {
    request.calendar = CalendarSpec{.unit = *unit};
    return true;
  }
  const auto period = core::parse_period(word);
  if (period) request.spec.per = *period;
  if (!period) reply.error("ERR period: " + period.error());
  return period.has_value();
}

// Call this after read_options().
bool read_calendar(LimitRequest& request, Reply& reply) {
  if (!request.calendar) {
    if (!request.zone && !request.starts) return true;
    reply.error("ERR " + std::string(request.zone ? "ZONE" : "STARTS") + " " +
                std::string(core::kNeedsCalendar));
    return false;
  }
  CalendarSpec& spec = *request.calendar;
  if (request.zone) spec.zone = *request.zone;
  if (request.starts) {
    const auto started = core::starting(spec, *request.starts);
    if (!started) {
      reply.error("ERR " + started.error());
      return false;
    }
    spec = *started;
  }
  const auto calendar = core::make_calendar_for_client(spec);
  if (calendar) request.spec.calendar = *calendar;
  if (!calendar) reply.error("ERR ZONE: " + calendar.error());
  return calendar.has_value();
}

// Reads "algorithm limit period [option value]...".
std::optional<Limit> read_limit(std::span<const std::string_view> words, LimitRequest& request,
                                Reply& reply) {
  const auto algorithm = algorithm_from(words[0]);
  if (!algorithm) {
    reply.error("ERR algorithm: there is no " + shown(words[0]) + "; expected " +
                core::list_of(core::kAllAlgorithmNames, "or"));
    return std::nullopt;
  }
  request.spec.algorithm = *algorithm;
  const auto units = read_number(words[1], {"limit", 0, kMost}, reply);
  if (!units) return std::nullopt;
  request.spec.limit = static_cast<std::uint64_t>(*units);
  if (!read_period(words[2], request, reply)) return std::nullopt;
  if (!read_options(words.subspan(3), request, reply)) return std::nullopt;
  if (!read_calendar(request, reply)) return std::nullopt;
  const auto limit = Limit::make(request.spec);
  if (!limit) {
    const std::string& why = limit.error();
    reply.error(why.starts_with("per ") ? "ERR period" + why.substr(3) : "ERR " + why);
    return std::nullopt;
  }
  if (!request.verb.required().empty() && !request.has_required) {
    reply.error("ERR " + std::string(request.verb.required()) + " is missing");
    return std::nullopt;
  }
  return *limit;
}

// `at` is the index of the key in the arguments.
void decide(CommandHandler& handler, const Call& call, const CounterVerb& verb, std::size_t at) {
  LimitRequest request{.verb = verb, .spec = {}};
  const auto limit = read_limit(call.arguments.subspan(at + 1), request, call.reply);
  if (!limit || (takes(verb.verb) && !handler.may_take(call, request.cost))) return;
  Charge charge{call.arguments[at], *limit, request.cost};
  Action action(verb.verb, request.max_wait);
  if (verb.settles) {
    const bool is_less = request.actual < request.cost;
    charge.cost = is_less ? request.cost - request.actual : request.actual - request.cost;
    if (is_less) action = Verb::kRefund;
  }
  std::optional<PermitId> permit;
  if (takes(verb.verb) && holds_permits(limit->algorithm())) permit = PermitId::random();
  charge.permit = permit ? &*permit : nullptr;
  const Decision decision = handler.session.decide(charge, action);
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (!error.empty()) return call.reply.error(error);
  const bool with_taken = verb.verb == Verb::kTakeAtMost;
  std::string text;
  if (permit && decision.allowed()) {
    charge.cost = with_taken ? decision.taken : charge.cost;
    PermitText::append(*permit, {&charge, 1}, text);
  }
  call.reply.map(kDecisionPairs + (with_taken ? 1 : 0) + (text.empty() ? 0 : 1));
  if (with_taken) put_taken(call.reply, decision);
  if (!text.empty()) put_permit(call.reply, text);
  put_decision(call.reply, decision);
}

// Ends a permit, or starts its lease again. Replies 1, or 0 if it has ended.
void change_permit(CommandHandler& handler, const Call& call, bool releases) {
  const std::string_view permit = call.arguments[1];
  if (const auto text = PermitText::parse(permit); !text) {
    return call.reply.error("ERR permit: " + text.error());
  }
  const Decision decision =
      releases ? handler.session.release(permit) : handler.session.extend(permit);
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (decision.reason != Reason::kGone && !error.empty()) return call.reply.error(error);
  call.reply.integer(decision.allowed() ? 1 : 0);
}

}  // namespace

void release(CommandHandler& handler, const Call& call) { change_permit(handler, call, true); }
void extend(CommandHandler& handler, const Call& call) { change_permit(handler, call, false); }
void limit(CommandHandler& handler, const Call& call) { decide(handler, call, {Verb::kTake}, 1); }
void peek_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, {Verb::kPeek}, 2);
}
void refund_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, {Verb::kRefund}, 2);
}
void reset_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, {Verb::kReset}, 2);
}

void charge_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, {Verb::kCharge}, 2);
}
void take_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, {Verb::kTakeAtMost}, 2);
}
void reserve_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, {Verb::kReserve}, 2);
}
void settle_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, {Verb::kCharge, true}, 2);
}

}  // namespace sluice::server::resp::commands
