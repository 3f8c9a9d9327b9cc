#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/period.h"
#include "server/resp/arguments.h"
#include "server/resp/decision_reply.h"
#include "server/resp/desk.h"
#include "server/resp/store_problem.h"

// RL.LIMIT and its like: decisions by what the request says alone.
namespace sluice::server::resp::commands {
namespace {

constexpr auto kMost = static_cast<std::int64_t>(kMaxUnits);

struct Asked {
  LimitSpec spec;
  std::uint64_t cost = 1;
};

// An option whose value is one of two words, the first of which is the first enumerator.
template <typename Enum>
bool read_choice(std::string_view name, std::string_view value,
                 const std::array<std::string_view, 2>& words, std::optional<Enum>& out,
                 Reply& reply) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!same_word(value, words[i])) continue;
    out = static_cast<Enum>(i);
    return true;
  }
  reply.error("ERR " + std::string(name) + ": there is no " + shown(value) + "; expected " +
              std::string(words[0]) + " or " + std::string(words[1]));
  return false;
}

bool read_units(std::string_view name, std::string_view value, std::int64_t least,
                std::optional<std::uint64_t>& out, Reply& reply) {
  const auto number = read_number(value, {name, least, kMost}, reply);
  if (number) out = static_cast<std::uint64_t>(*number);
  return number.has_value();
}

bool read_option(std::string_view name, std::string_view value, Asked& asked, Reply& reply) {
  LimitSpec& spec = asked.spec;
  if (same_word(name, "cost")) {
    const auto cost = read_number(value, {"COST", 0, kMost}, reply);
    if (cost) asked.cost = static_cast<std::uint64_t>(*cost);
    return cost.has_value();
  }
  if (same_word(name, "burst")) return read_units("BURST", value, 0, spec.burst, reply);
  if (same_word(name, "slices")) return read_units("SLICES", value, 1, spec.slices, reply);
  if (same_word(name, "align")) {
    return read_choice<Align>("ALIGN", value, {"first_request", "clock"}, spec.align, reply);
  }
  if (same_word(name, "weighting")) {
    return read_choice<Weighting>("WEIGHTING", value, {"linear", "none"}, spec.weighting, reply);
  }
  if (same_word(name, "mode")) {
    return read_choice<LeakyMode>("MODE", value, {"meter", "queue"}, spec.mode, reply);
  }
  if (same_word(name, "refill")) {
    return read_choice<Refill>("REFILL", value, {"continuous", "interval"}, spec.refill, reply);
  }
  reply.error("ERR there is no option " + shown(name) +
              "; expected BURST, SLICES, ALIGN, WEIGHTING, MODE, REFILL or COST");
  return false;
}

bool read_options(std::span<const std::string_view> words, Asked& asked, Reply& reply) {
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
    if (!read_option(words[i], words[i + 1], asked, reply)) return false;
  }
  return true;
}

// Of: algorithm limit period [option value]...
std::optional<Limit> read_limit(std::span<const std::string_view> words, std::uint64_t& cost,
                                Reply& reply) {
  Asked asked;
  const auto algorithm = algorithm_from(words[0]);
  if (!algorithm) {
    reply.error("ERR algorithm: there is no " + shown(words[0]) +
                "; expected fixed_window, sliding_window_log, sliding_window_counter, "
                "sliding_window_hybrid, leaky_bucket, token_bucket or gcra");
    return std::nullopt;
  }
  asked.spec.algorithm = *algorithm;
  const auto units = read_number(words[1], {"limit", 0, kMost}, reply);
  if (!units) return std::nullopt;
  asked.spec.limit = static_cast<std::uint64_t>(*units);
  const auto period = core::parse_period(words[2]);
  if (!period) {
    reply.error("ERR period: " + period.error());
    return std::nullopt;
  }
  asked.spec.per = *period;
  if (!read_options(words.subspan(3), asked, reply)) return std::nullopt;
  const auto limit = Limit::make(asked.spec);
  if (!limit) {
    const std::string& why = limit.error();
    reply.error(why.starts_with("per ") ? "ERR period" + why.substr(3) : "ERR " + why);
    return std::nullopt;
  }
  cost = asked.cost;
  return *limit;
}

// `at`: where the key stands among the arguments.
void decide(Desk& desk, const Call& call, Verb verb, std::size_t at) {
  std::uint64_t cost = 1;
  const auto limit = read_limit(call.arguments.subspan(at + 1), cost, call.reply);
  if (!limit) return;
  const Decision decision =
      desk.limiter.store().apply_one(verb, {call.arguments[at], *limit, cost}, {});
  desk.outcome = decision.outcome;
  if (verb == Verb::kTake) desk.session.tell(call.arguments[at], decision);
  if (is_store_problem(decision)) return answer_store_problem(call.reply, decision);
  call.reply.map(kDecisionPairs);
  put_decision(call.reply, decision);
}

}  // namespace

void limit(Desk& desk, const Call& call) { decide(desk, call, Verb::kTake, 1); }
void peek_limit(Desk& desk, const Call& call) { decide(desk, call, Verb::kPeek, 2); }
void refund_limit(Desk& desk, const Call& call) { decide(desk, call, Verb::kRefund, 2); }
void reset_limit(Desk& desk, const Call& call) { decide(desk, call, Verb::kReset, 2); }

}  // namespace sluice::server::resp::commands
