#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

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

// `at` is the index of the rule in the arguments.
void decide(CommandHandler& handler, const Call& call, Verb verb, std::size_t at) {
  const std::string_view rule = call.arguments[at];
  auto words = call.arguments.subspan(at + 1);
  std::uint64_t cost = 1;
  if (words.size() >= 2 && words.size() % 2 == 0 && same_word(words[words.size() - 2], "cost")) {
    const auto read =
        read_number(words.back(), {"COST", 0, static_cast<std::int64_t>(kMaxUnits)}, call.reply);
    if (!read) return;
    cost = static_cast<std::uint64_t>(*read);
    words = words.first(words.size() - 2);
  }
  if (verb == Verb::kTake && !handler.may_take(call, cost)) return;
  if (!read_attributes(words, handler, call.reply)) return;
  const RuleAnswer* const answer =
      rule == "*" ? &handler.session.decide(handler.attributes, cost, verb)
                  : handler.session.decide_by(rule, handler.attributes, cost, verb);
  if (answer == nullptr) {
    return call.reply.error("ERR rule: there is no " + shown(rule) +
                            "; expected the name of a rule, or * for those that match");
  }
  handler.outcome = answer->decision.outcome;
  // A rule answers for a store that could not decide, but not for a refund or a reset.
  const Reason reason = answer->decision.reason;
  const bool by_rule = (verb == Verb::kTake || verb == Verb::kPeek) && reason != Reason::kInvalid;
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
