#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "limiter/answer.h"
#include "limiter/limit_arguments.h"
#include "limiter/reason_report.h"
#include "rules/diagnostics.h"
#include "server/api/resp/command.h"
#include "server/api/resp/command_handler.h"
#include "server/decide/rejection.h"
#include "sluice/permit.h"
#include "sluice/permit_id.h"

// The commands that decide by a limit in the request, such as RL.LIMIT.
namespace sluice::server::resp::commands {
namespace {

// Notes the outcome of a decision. Returns whether the reply is an error, because the store could
// not decide.
bool is_refused(CommandHandler& handler, const Call& call, const Decision& decision) {
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (!error.empty()) call.reply.error(error);
  return !error.empty();
}

// Ends a permit, or starts its lease again. Replies 1, or 0 if it has ended.
void change_permit(CommandHandler& handler, const Call& call, bool releases) {
  const std::string_view permit = call.arguments[1];
  if (const auto text = PermitText::parse(permit); !text) {
    return call.reply.error("ERR permit: " + text.error());
  }
  const Decision decision =
      releases ? handler.session.release(permit) : handler.session.extend(permit);
  if (is_refused(handler, call, decision)) return;
  call.reply.integer(decision.allowed() ? 1 : 0);
}

}  // namespace

void release(CommandHandler& handler, const Call& call) { change_permit(handler, call, true); }

// RL.EXTEND of a permit, or of the hold of an id.
void extend(CommandHandler& handler, const Call& call) {
  if (call.arguments.size() == 2) return change_permit(handler, call, false);
  const std::string_view form = call.arguments[1];
  const bool by_rule = same_word(form, "CHECK");
  if (!by_rule && !same_word(form, "LIMIT")) {
    return call.reply.error("ERR there is no " + shown(form) +
                            "; expected a permit, CHECK or LIMIT");
  }
  if (call.arguments.size() < (by_rule ? 3 : 6)) {
    return call.reply.error("ERR wrong number of arguments for 'rl.extend' command");
  }
  (by_rule ? check : limit)(handler, {call.command, call.arguments, 2, call.client, call.reply});
}

namespace {

// Returns the id that was given, or a new one for a hold.
std::string id_of(std::string_view given, Verb verb) {
  return given.empty() && verb == Verb::kHold ? PermitId::random_text() : std::string(given);
}

// Returns whether the client may settle: without an id only an operator. If not, the reply says so.
bool may_settle(const Call& call, std::string_view id) {
  if (!call.command.verb.settles || !id.empty() || call.client.role >= Role::kOperate) return true;
  call.reply.error("NOPERM this user has no permissions to run the 'rl.settle|" +
                   std::string(call.command.name) + "' command");
  return false;
}

std::size_t id_pairs(const Decision& decision, std::string_view id) {
  if (id.empty()) return 0;
  return 1U + decision.repeated + decision.late + (decision.ends_after > Duration{0});
}

void put_id(Reply& reply, const Decision& decision, std::string_view id) {
  if (id.empty()) return;
  reply.member("id", id);
  if (decision.repeated) reply.member("repeated", 1);
  if (decision.late) reply.member("late", 1);
  if (decision.ends_after <= Duration{0}) return;
  reply.member("ends_after_ms", decision.ends_after / std::chrono::milliseconds{1});
}

}  // namespace

void limit(CommandHandler& handler, const Call& call) {
  const CounterVerb& verb = call.command.verb;
  const auto request = parse_limit(verb, call.arguments.subspan(call.first + 1));
  if (!request) return call.reply.error("ERR " + request.error());
  if (takes(verb.verb) && !handler.may_take(call, request->cost)) return;
  if (!may_settle(call, request->id)) return;
  const Limit& limit = request->limit;
  Charge charge{call.arguments[call.first], limit, request->cost};
  Action action{verb.verb, request->max_wait};
  const std::string id = id_of(request->id, verb.verb);
  const PermitId name = id.empty() ? PermitId() : PermitId::named(id);
  if (!id.empty()) {
    if (!holds_amounts(limit.algorithm())) {
      return call.reply.error("ERR algorithm: only budget has holds");
    }
    charge.permit = &name;
    charge.id_text = id;
    if (verb.settles) {
      charge.cost = request->actual;
      action = Verb::kSettle;
    }
  } else if (verb.has_ttl()) {
    return call.reply.error("ERR ID is missing");
  } else if (verb.settles) {
    charge.gives_back = request->actual < request->cost;
    charge.cost =
        charge.gives_back ? request->cost - request->actual : request->actual - request->cost;
  }
  std::string permit;
  const Decision decision = handler.session.decide(charge, action, &permit, verb.settles);
  if (is_refused(handler, call, decision)) return;
  const bool with_taken = verb.verb == Verb::kTakeAtMost;
  call.reply.map(kDecisionPairs + (with_taken ? 1 : 0) + (permit.empty() ? 0 : 1) +
                 id_pairs(decision, id));
  put_id(call.reply, decision, id);
  if (with_taken) call.reply.member("taken", decision.taken);
  if (!permit.empty()) call.reply.member("permit", permit);
  put_decision(call.reply, limit, decision);
}

// CL.THROTTLE, compatible with redis-cell, and the same decision under other names.
namespace {

// Returns the limit with these numbers, or null if the reply has become an error. Most requests use
// the same few limits, and making one costs more than the rest of the request.
const Limit* limit_of(CommandHandler& handler, const Call& call, ThrottleForm form,
                      const ThrottleArguments& asked) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t mixed = asked.burst * kOdd ^ asked.count;
  mixed = mixed * kOdd ^ static_cast<std::uint64_t>(asked.period.count());
  auto& known = handler.limits[mixed * kOdd >> 58];  // one of 64
  const bool is_known = known && known->first.burst == asked.burst &&
                        known->first.count == asked.count && known->first.period == asked.period;
  if (is_known) return &known->second;
  const auto limit = asked.limit(form);
  if (limit) return &known.emplace(asked, *limit).second;
  call.reply.error("ERR " + limit.error());
  return nullptr;
}

void run(CommandHandler& handler, const Call& call, ThrottleForm form) {
  const auto asked = parse_throttle(form, call.arguments.subspan(2));
  if (!asked) return call.reply.error("ERR " + asked.error());
  const Limit* const limit = limit_of(handler, call, form, *asked);
  if (limit == nullptr) return;
  if (asked->quantity < 0 && call.client.role < Role::kOperate) {
    return call.reply.error("NOPERM this user may not refund: quantity is negative");
  }
  if (asked->quantity > 1 && !handler.may_take(call, static_cast<std::uint64_t>(asked->quantity))) {
    return;
  }
  const Decision decision =
      handler.session.decide({call.arguments[1], *limit, asked->cost()}, asked->verb());
  if (is_refused(handler, call, decision)) return;
  const auto numbers = throttle_reply(form, *asked, *limit, decision);
  call.reply.array(numbers.size());
  for (const std::int64_t number : numbers) call.reply.integer(number);
}

}  // namespace

void throttle(CommandHandler& handler, const Call& call) {
  run(handler, call, ThrottleForm::kCell);
}
void throttle_like_crab(CommandHandler& handler, const Call& call) {
  run(handler, call, ThrottleForm::kCrab);
}
void gcra(CommandHandler& handler, const Call& call) { run(handler, call, ThrottleForm::kGcra); }

// The commands that decide by rules, such as RL.CHECK.
namespace {

constexpr std::string_view kHeader = "header.";
constexpr std::size_t kLimitPairs = kDecisionPairs + 3;
constexpr std::size_t kAnswerPairs = kDecisionPairs + 2;

// Returns a name as rules spell it: names of headers in lower case. `text` must have room for it.
std::string_view spelled(std::string_view name, std::string& text) {
  if (!name.starts_with(kHeader) || std::ranges::none_of(name, base::is_upper)) return name;
  const std::size_t begin = text.size();
  for (const char c : name) text += base::lower(c);
  return std::string_view(text).substr(begin);
}

void put_limit(Reply& reply, const LimitAnswer& limit) {
  const bool warns = limit.limit->warn_percent > 0;
  const bool is_passed_over = limit.decision.passed_over;
  reply.map(kLimitPairs + (warns ? 1 : 0) + (is_passed_over ? 1 : 0));
  reply.member("name", limit.limit->name);
  reply.member("rule", limit.rule->name);
  reply.member("mode", limit.rule->mode == RuleMode::kShadow ? "shadow" : "enforce");
  Decision decision = limit.decision;
  decision.capacity = limit.numbers.capacity();
  put_decision(reply, limit.numbers, decision);
  if (is_passed_over) reply.member("passed_over", 1);
  if (!warns) return;
  reply.member("near", limit.near ? 1 : 0);
}

void put_degraded(Reply& reply, const std::vector<const RejectHeader*>& headers) {
  reply.member("degraded", 1);
  reply.bulk("headers");
  reply.map(headers.size());
  for (const RejectHeader* header : headers) {
    reply.member(header->name, header->value);
  }
}

// Writes the names of the limits that did not apply, because the request lacks an attribute.
void put_skipped(Reply& reply, const RuleAnswer& answer) {
  reply.bulk("skipped");
  reply.array(answer.skipped.size());
  for (const RuleAnswer::Skipped& one : answer.skipped) {
    reply.bulk(one.rule == answer.rule ? one.limit->name
                                       : rules::full_name(one.rule->name, one.limit->name));
  }
}

void put_answer(Reply& reply, const RuleAnswer& answer, bool with_taken, std::string_view id) {
  const bool has_permit = !answer.permit.empty();
  const bool degraded = answer.degraded();
  const LimitAnswer* const charged = answer.charged();
  reply.map(kAnswerPairs + (with_taken ? 1 : 0) + (has_permit ? 1 : 0) + (degraded ? 2 : 0) +
            (charged != nullptr ? 1 : 0) + (answer.skipped.empty() ? 0 : 1) +
            id_pairs(answer.decision, id));
  put_id(reply, answer.decision, id);
  if (with_taken) reply.member("taken", answer.decision.taken);
  if (has_permit) reply.member("permit", answer.permit);
  reply.bulk("rule");
  if (answer.rule != nullptr) {
    reply.bulk(answer.rule->name);
  } else {
    reply.null();
  }
  const auto is_tightest_and_never_full = [&](const LimitAnswer& limit) {
    return limit.decision.reset_after == answer.decision.reset_after &&
           !is_ever_full(limit.numbers, limit.decision);
  };
  const bool has_enforced = std::ranges::any_of(answer.limits, [](const LimitAnswer& limit) {
    return limit.rule->mode == RuleMode::kEnforce;
  });
  put_decision(reply, answer.decision, has_enforced && has_numbers(answer.decision),
               std::ranges::none_of(answer.limits, is_tightest_and_never_full));
  if (charged != nullptr) reply.member("charged", charged->limit->name);
  if (degraded) put_degraded(reply, degrade_headers(answer));
  reply.bulk("limits");
  reply.array(answer.limits.size());
  for (const LimitAnswer& limit : answer.limits) put_limit(reply, limit);
  if (!answer.skipped.empty()) put_skipped(reply, answer);
}

// Reads "units" or "name=units". Returns false if the reply has become an error.
bool read_cost(std::string_view option, std::string_view word, std::optional<std::uint64_t>& all,
               std::vector<LimitCost>& limits, Reply& reply) {
  const std::size_t equals = word.rfind('=');
  const bool named = equals != word.npos;
  const std::string_view name = named ? word.substr(0, equals) : std::string_view();
  const auto units = read_number(named ? word.substr(equals + 1) : word,
                                 {option, 0, static_cast<std::int64_t>(kMaxAmount)}, reply);
  if (!units) return false;
  const auto is_same = [&](const LimitCost& cost) { return cost.limit == name; };
  if (named ? std::any_of(limits.begin(), limits.end(), is_same) : all.has_value()) {
    reply.error("ERR " + std::string(option) + " is given twice" +
                (named ? " for the limit " + shown(name) : ""));
    return false;
  }
  if (limits.size() == kMaxCharges) {
    reply.error("ERR too many costs; expected at most 64");
    return false;
  }
  if (named) {
    limits.push_back({name, static_cast<std::uint64_t>(*units)});
  } else {
    all = static_cast<std::uint64_t>(*units);
  }
  return true;
}

// The options after the attributes. The costs of single limits are in the handler.
struct CheckOptions {
  std::optional<std::uint64_t> units = {}, actual_units = {};
  std::optional<Duration> max_wait = {};  // or how long a hold or an extension lasts
  std::string_view id = {};
  bool has_required = false;
};

// Reads the value of an option that requests have once. Returns false if the reply has become an
// error.
bool read_once(std::string_view option, std::string_view value, CheckOptions& options,
               Reply& reply) {
  const bool is_id = option == "ID";
  if (is_id ? !options.id.empty() : options.max_wait.has_value()) {
    reply.error("ERR " + std::string(option) + " is given twice");
    return false;
  }
  if (is_id) {
    options.id = value;
    const std::string wrong = find_id_error(value);
    if (!wrong.empty()) reply.error("ERR " + wrong);
    return wrong.empty();
  }
  const auto time = option == "TTL" ? parse_ttl(value) : parse_max_wait(value);
  if (!time) reply.error("ERR " + time.error());
  if (time) options.max_wait = *time;
  return time.has_value();
}

// Checks what read_options() has left. Returns false if the reply has become an error.
bool has_all(std::span<const std::string_view> words, const CounterVerb& verb,
             const CheckOptions& options, Reply& reply) {
  if (verb.has_id() && options.id.empty()) {
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
      if (words[i] != "ID") continue;
      reply.error("ERR ID must come after the attributes");
      return false;
    }
  }
  if (verb.required().empty() || options.has_required) return true;
  reply.error("ERR " + std::string(verb.required()) + " is missing; expected it at the end");
  return false;
}

// Returns whether a word is the option ID. If a command needs none, `id` is an attribute.
bool is_id(std::string_view name, const CounterVerb& verb) {
  return name == "ID" || (verb.has_id() && !verb.may_have_id && same_word(name, "ID"));
}

// Reads the options at the end of the words, in any order, and removes them. Returns false if the
// reply has become an error.
bool read_options(std::span<const std::string_view>& words, CommandHandler& handler,
                  const CounterVerb& verb, CheckOptions& options, Reply& reply) {
  while (words.size() >= 2 && words.size() % 2 == 0) {
    const std::string_view name = words[words.size() - 2];
    const bool is_required = !verb.required().empty() && same_word(name, verb.required());
    options.has_required |= is_required;
    if (is_id(name, verb)) {
      if (!verb.has_id()) {
        reply.error("ERR this command has no ID; expected RL.CHECK, RL.CHARGE or RL.HOLD");
        return false;
      }
      if (!read_once("ID", words.back(), options, reply)) return false;
    } else if (verb.has_cost() && same_word(name, verb.cost_word())) {
      if (!read_cost(verb.cost_word(), words.back(), options.units, handler.costs, reply)) {
        return false;
      }
    } else if (is_required && verb.settles) {
      if (!read_cost("ACTUAL", words.back(), options.actual_units, handler.actual_costs, reply)) {
        return false;
      }
    } else if (is_required) {
      if (!read_once(verb.required(), words.back(), options, reply)) return false;
    } else {
      break;
    }
    words = words.first(words.size() - 2);
  }
  return has_all(words, verb, options, reply);
}

const RuleAnswer* ask(CommandHandler& handler, std::string_view rule, const CounterVerb& verb,
                      const CheckOptions& options, const std::string& id) {
  RequestCosts costs(options.units.value_or(1), handler.costs);
  Action action{verb.verb, options.max_wait.value_or(Duration{0})};
  const PermitId name = id.empty() ? PermitId() : PermitId::named(id);
  if (!id.empty()) {
    if (verb.settles) {
      costs = {options.actual_units.value_or(RequestCosts::kNoUnits), handler.actual_costs};
      action = Verb::kSettle;
    }
    costs.id = &name;
    costs.id_text = id;
  }
  // Limits without an actual cost keep the reserved one.
  const RequestCosts actual(options.actual_units.value_or(costs.units), handler.actual_costs);
  return handler.session.decide(
      {.attributes = handler.attributes,
       .costs = costs,
       .action = action,
       .rule = rule == "*" ? std::nullopt : std::optional(rule),
       .actual = verb.settles && id.empty() ? &actual : nullptr,
       .response = verb.reports ? &handler.attributes : nullptr,  // they have the response, too
       .hands_out_permit = true});
}

}  // namespace

bool read_attributes(std::span<const std::string_view> words, CommandHandler& handler,
                     Reply& reply) {
  if (words.size() % 2 != 0) {
    reply.error("ERR the attribute " + shown(words.back()) + " lacks its value");
    return false;
  }
  if (words.size() / 2 > NamedAttributes::kMost) {
    reply.error("ERR too many attributes; expected at most 1000");
    return false;
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < words.size(); i += 2) bytes += words[i].size();
  handler.text.clear();
  handler.text.reserve(bytes);  // so that the views stay valid
  handler.attributes.clear();
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (words[i].size() > NamedAttributes::kMostNameBytes) {
      reply.error("ERR the attribute " + shown(words[i]) +
                  " has too long a name; expected at most 256 bytes");
      return false;
    }
    handler.attributes.add(spelled(words[i], handler.text), words[i + 1]);
  }
  const auto twice = handler.attributes.finish();
  if (twice) reply.error("ERR the attribute " + shown(*twice) + " is given twice");
  return !twice;
}

void check(CommandHandler& handler, const Call& call) {
  const CounterVerb& verb = call.command.verb;
  const std::string_view rule = call.arguments[call.first];
  auto words = call.arguments.subspan(call.first + 1);
  handler.costs.clear();
  handler.actual_costs.clear();
  CheckOptions options;
  if (!read_options(words, handler, verb, options, call.reply)) return;
  std::uint64_t most = options.units.value_or(1);
  for (const LimitCost& cost : handler.costs) most = std::max(most, cost.units);
  if (takes(verb.verb) && !handler.may_take(call, most)) return;
  if (!may_settle(call, options.id)) return;
  const std::string id = id_of(options.id, verb.verb);
  if (id.empty() && verb.has_ttl()) return call.reply.error("ERR ID is missing");
  if (!read_attributes(words, handler, call.reply)) return;
  const RuleAnswer* const answer = ask(handler, rule, verb, options, id);
  if (answer == nullptr) {
    return call.reply.error("ERR rule: there is no " + shown(rule) +
                            "; expected the name of a rule, or * for those that match");
  }
  handler.outcome = answer->decision.outcome;
  // A rule answers for a store that could not decide, but not for a verb that reports.
  const Reason reason = answer->decision.reason;
  const bool by_rule = asks(verb.verb) && reason != Reason::kInvalid;
  if (!answer->mistake.empty()) return call.reply.error("ERR " + std::string(answer->mistake));
  const std::string_view error = report_of(reason).resp_error;
  if (!by_rule && !error.empty()) return call.reply.error(error);
  put_answer(call.reply, *answer, verb.verb == Verb::kTakeAtMost, id);
}

}  // namespace sluice::server::resp::commands
