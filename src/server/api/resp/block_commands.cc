#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/period.h"
#include "limiter/reason_report.h"
#include "server/api/resp/arguments.h"
#include "server/api/resp/command_handler.h"
#include "server/decide/rule_counters.h"

// RL.BLOCK and RL.UNBLOCK: the blocks of single keys.
namespace sluice::server::resp::commands {
namespace {

// Reads the value of FOR or UNTIL as the time from now. Writes an error if it is wrong.
std::optional<Duration> read_for(std::string_view value, Reply& reply) {
  const auto time = core::parse_period(value);
  if (time && *time >= kMinPeriod && *time <= kMaxPeriod) return *time;
  reply.error("ERR FOR" + (time ? " is out of range: " + shown(value) + "; expected 1ms to 366d"
                                : ": " + time.error()));
  return std::nullopt;
}

std::optional<Duration> read_until(std::string_view value, Reply& reply) {
  using std::chrono::milliseconds;
  const Duration now = SystemClock().now().time_since_epoch();
  const auto first = std::chrono::ceil<milliseconds>(now + kMinPeriod);
  const auto last = std::chrono::floor<milliseconds>(now + kMaxPeriod);
  const auto ms = read_number(value, {"UNTIL", first.count(), last.count()}, reply);
  return ms ? std::optional<Duration>(milliseconds{*ms} - now) : std::nullopt;
}

bool ends_with_option(std::span<const std::string_view> words) {
  if (words.size() < 2) return false;
  const std::string_view name = words[words.size() - 2];
  return same_word(name, "FOR") || same_word(name, "UNTIL");
}

// A rule's counter that has a block, and the rules that it borrows from.
struct FoundLimit {
  RuleSet rules;
  RuleCounter counter;
};

// Returns the counter of the rule, the limit and the attributes in the arguments; or writes an
// error.
std::optional<FoundLimit> find_counter(CommandHandler& handler, const Call& call,
                                       std::span<const std::string_view> attributes) {
  if (!read_attributes(attributes, handler, call.reply)) return std::nullopt;
  const std::string_view rule_name = call.arguments[1];
  const std::string_view limit_name = call.arguments[2];
  RuleSet rules = handler.rules.current();
  const auto named = name_override(rules, rule_name, limit_name, handler.attributes,
                                   {.kind = Override::Kind::kBlocked});
  if (!named) {
    call.reply.error("ERR " + named.error());
    return std::nullopt;
  }
  const Rule& rule = *rules.find(rule_name);
  for (RuleCounter& counter : counters_of(rules, rule, handler.attributes)) {
    if (counter.limit->name != limit_name) continue;
    if (counter.limit->block) return FoundLimit{std::move(rules), std::move(counter)};
    break;
  }
  call.reply.error("ERR the limit " + shown(limit_name) + " of the rule " + shown(rule_name) +
                   " has no block; expected a limit with 'block:' in the rules, or an override, "
                   "which blocks a key of any limit: RL.OVERRIDE SET " +
                   shown(rule_name) + " " + shown(limit_name) + " ... LIMIT blocked");
  return std::nullopt;
}

// Returns nothing if the store did not do it; then writes an error.
std::optional<Decision> apply(CommandHandler& handler, const Call& call, const FoundLimit& found,
                              Action action) {
  const Decision done = handler.limiter.store().apply_one(action, found.counter.charge(1), {});
  const bool is_done =
      action.verb == Verb::kPeek ? done.outcome != Outcome::kFailed : done.allowed();
  if (is_done) return done;
  call.reply.error(report_of(done.reason).resp_error);
  return std::nullopt;
}

}  // namespace

void block(CommandHandler& handler, const Call& call) {
  const auto words = call.arguments.subspan(3);
  const auto attributes = words.first(words.size() - std::min<std::size_t>(words.size(), 2));
  if (words.size() % 2 != 0 || !ends_with_option(words) || ends_with_option(attributes)) {
    return call.reply.error("ERR expected one of FOR and UNTIL after the attributes");
  }
  const std::string_view value = words.back();
  const auto time = same_word(words[attributes.size()], "FOR") ? read_for(value, call.reply)
                                                               : read_until(value, call.reply);
  if (!time) return;
  const auto found = find_counter(handler, call, attributes);
  if (found && apply(handler, call, *found, {Verb::kBlock, *time})) call.reply.ok();
}

void unblock(CommandHandler& handler, const Call& call) {
  const auto found = find_counter(handler, call, call.arguments.subspan(3));
  if (!found) return;
  const auto before = apply(handler, call, *found, Verb::kPeek);
  if (!before || !apply(handler, call, *found, Verb::kUnblock)) return;
  call.reply.integer(before->reason == Reason::kBlocked ? 1 : 0);
}

}  // namespace sluice::server::resp::commands
