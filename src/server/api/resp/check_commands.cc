#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "limiter/reason_report.h"
#include "server/api/resp/arguments.h"
#include "server/api/resp/command_handler.h"
#include "server/api/resp/decision_reply.h"

// The commands that decide by rules, such as RL.CHECK.
namespace sluice::server::resp::commands {
namespace {

constexpr std::string_view kHeader = "header.";
constexpr std::size_t kLimitPairs = kDecisionPairs + 3;
constexpr std::size_t kAnswerPairs = kDecisionPairs + 2;

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// Returns a name as rules spell it: names of headers in lower case. `text` must have room for it.
std::string_view spelled(std::string_view name, std::string& text) {
  if (!name.starts_with(kHeader) || std::none_of(name.begin(), name.end(), is_upper)) return name;
  const std::size_t begin = text.size();
  for (const char c : name) text += is_upper(c) ? static_cast<char>(c | 0x20) : c;
  return std::string_view(text).substr(begin);
}

// Reads "attribute value [attribute value]...". Returns false if the reply has become an error.
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

void put_limit(Reply& reply, const LimitAnswer& limit) {
  reply.map(kLimitPairs);
  reply.bulk("name");
  reply.bulk(limit.limit->name);
  reply.bulk("rule");
  reply.bulk(limit.rule->name);
  reply.bulk("mode");
  reply.bulk(limit.rule->mode == RuleMode::kShadow ? "shadow" : "enforce");
  Decision decision = limit.decision;
  decision.capacity = limit.limit->limit.capacity();
  put_decision(reply, decision);
}

void put_answer(Reply& reply, const RuleAnswer& answer) {
  reply.map(kAnswerPairs);
  reply.bulk("rule");
  if (answer.rule != nullptr) {
    reply.bulk(answer.rule->name);
  } else {
    reply.null();
  }
  put_decision(reply, answer.decision, !answer.limits.empty() && has_numbers(answer.decision));
  reply.bulk("limits");
  reply.array(answer.limits.size());
  for (const LimitAnswer& limit : answer.limits) put_limit(reply, limit);
}

bool is_cost(std::span<const std::string_view> words) {
  return words.size() >= 2 && words.size() % 2 == 0 && same_word(words[words.size() - 2], "cost");
}

// The numbers of the COSTs of a request.
struct Costs {
  std::optional<std::uint64_t> units;
  std::vector<LimitCost>& limits;

  std::uint64_t most() const {
    std::uint64_t most = units.value_or(1);
    for (const LimitCost& cost : limits) most = std::max(most, cost.units);
    return most;
  }
};

// Reads "units" or "name=units". Returns false if the reply has become an error.
bool read_cost(std::string_view word, Costs& costs, Reply& reply) {
  const std::size_t equals = word.rfind('=');
  const bool named = equals != word.npos;
  const std::string_view name = named ? word.substr(0, equals) : std::string_view();
  const auto units = read_number(named ? word.substr(equals + 1) : word,
                                 {"COST", 0, static_cast<std::int64_t>(kMaxUnits)}, reply);
  if (!units) return false;
  const auto is_same = [&](const LimitCost& cost) { return cost.limit == name; };
  if (named ? std::any_of(costs.limits.begin(), costs.limits.end(), is_same)
            : costs.units.has_value()) {
    reply.error("ERR COST is given twice" + (named ? " for the limit " + shown(name) : ""));
    return false;
  }
  if (costs.limits.size() == kMaxCharges) {
    reply.error("ERR too many costs; expected at most 64");
    return false;
  }
  if (named) {
    costs.limits.push_back({name, static_cast<std::uint64_t>(*units)});
  } else {
    costs.units = static_cast<std::uint64_t>(*units);
  }
  return true;
}

// `at` is the index of the rule in the arguments.
void decide(CommandHandler& handler, const Call& call, Verb verb, std::size_t at) {
  const std::string_view rule = call.arguments[at];
  auto words = call.arguments.subspan(at + 1);
  Costs given{{}, handler.costs};
  given.limits.clear();
  for (; is_cost(words); words = words.first(words.size() - 2)) {
    if (!read_cost(words.back(), given, call.reply)) return;
  }
  if (verb == Verb::kTake && !handler.may_take(call, given.most())) return;
  if (!read_attributes(words, handler, call.reply)) return;
  const RequestCosts costs(given.units.value_or(1), given.limits);
  const RuleAnswer* const answer =
      rule == "*" ? &handler.session.decide(handler.attributes, costs, verb)
                  : handler.session.decide_by(rule, handler.attributes, costs, verb);
  if (answer == nullptr) {
    return call.reply.error("ERR rule: there is no " + shown(rule) +
                            "; expected the name of a rule, or * for those that match");
  }
  handler.outcome = answer->decision.outcome;
  // A rule answers for a store that could not decide, but not for a refund or a reset.
  const Reason reason = answer->decision.reason;
  const bool by_rule = (verb == Verb::kTake || verb == Verb::kPeek) && reason != Reason::kInvalid;
  if (!answer->mistake.empty()) return call.reply.error("ERR " + std::string(answer->mistake));
  const std::string_view error = report_of(reason).resp_error;
  if (!by_rule && !error.empty()) return call.reply.error(error);
  put_answer(call.reply, *answer);
}

}  // namespace

void check(CommandHandler& handler, const Call& call) { decide(handler, call, Verb::kTake, 1); }
void peek_check(CommandHandler& handler, const Call& call) {
  decide(handler, call, Verb::kPeek, 2);
}
void refund_check(CommandHandler& handler, const Call& call) {
  decide(handler, call, Verb::kRefund, 2);
}
void reset_check(CommandHandler& handler, const Call& call) {
  decide(handler, call, Verb::kReset, 2);
}

}  // namespace sluice::server::resp::commands
