#include <cstdint>
#include <optional>
#include <string>

#include "core/limit_options.h"
#include "core/period.h"
#include "limiter/reason_report.h"
#include "server/api/resp/arguments.h"
#include "server/api/resp/command_handler.h"
#include "server/api/resp/decision_reply.h"

// The commands that decide by a limit in the request, such as RL.LIMIT.
namespace sluice::server::resp::commands {
namespace {

constexpr auto kMost = static_cast<std::int64_t>(kMaxUnits);

struct LimitRequest {
  LimitSpec spec;
  std::uint64_t cost = 1;
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

void refuse_option(std::string_view name, Reply& reply) {
  std::string names;
  for (const core::OptionInfo& option : core::kLimitOptions) {
    names.append(names.empty() ? "" : ", ").append(upper(option.name));
  }
  reply.error("ERR there is no option " + shown(name) + "; expected " + names + " or COST");
}

bool read_option(std::string_view name, std::string_view value, LimitRequest& request,
                 Reply& reply) {
  if (same_word(name, "cost")) {
    const auto cost = read_units("COST", value, 0, reply);
    if (cost) request.cost = *cost;
    return cost.has_value();
  }
  for (const core::OptionInfo& option : core::kLimitOptions) {
    if (!same_word(name, option.name)) continue;
    const auto read = option.words.empty()
                          ? read_units(upper(option.name), value, option.least, reply)
                          : read_word(option, value, reply);
    if (read) core::set_value(request.spec, option.option, *read);
    return read.has_value();
  }
  refuse_option(name, reply);
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

// Reads "algorithm limit period [option value]...".
std::optional<Limit> read_limit(std::span<const std::string_view> words, std::uint64_t& cost,
                                Reply& reply) {
  LimitRequest request;
  const auto algorithm = algorithm_from(words[0]);
  if (!algorithm) {
    reply.error("ERR algorithm: there is no " + shown(words[0]) + "; expected " +
                core::list_of(core::kAlgorithmNames, "or"));
    return std::nullopt;
  }
  request.spec.algorithm = *algorithm;
  const auto units = read_number(words[1], {"limit", 0, kMost}, reply);
  if (!units) return std::nullopt;
  request.spec.limit = static_cast<std::uint64_t>(*units);
  const auto period = core::parse_period(words[2]);
  if (!period) {
    reply.error("ERR period: " + period.error());
    return std::nullopt;
  }
  request.spec.per = *period;
  if (!read_options(words.subspan(3), request, reply)) return std::nullopt;
  const auto limit = Limit::make(request.spec);
  if (!limit) {
    const std::string& why = limit.error();
    reply.error(why.starts_with("per ") ? "ERR period" + why.substr(3) : "ERR " + why);
    return std::nullopt;
  }
  cost = request.cost;
  return *limit;
}

// `at` is the index of the key in the arguments.
void decide(CommandHandler& handler, const Call& call, Verb verb, std::size_t at) {
  std::uint64_t cost = 1;
  const auto limit = read_limit(call.arguments.subspan(at + 1), cost, call.reply);
  if (!limit || (verb == Verb::kTake && !handler.may_take(call, cost))) return;
  const Decision decision = handler.session.decide({call.arguments[at], *limit, cost}, verb);
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (!error.empty()) return call.reply.error(error);
  call.reply.map(kDecisionPairs);
  put_decision(call.reply, decision);
}

}  // namespace

void limit(CommandHandler& handler, const Call& call) { decide(handler, call, Verb::kTake, 1); }
void peek_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, Verb::kPeek, 2);
}
void refund_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, Verb::kRefund, 2);
}
void reset_limit(CommandHandler& handler, const Call& call) {
  decide(handler, call, Verb::kReset, 2);
}

}  // namespace sluice::server::resp::commands
