#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/period.h"
#include "insight/top_keys.h"
#include "limiter/reason_report.h"
#include "rules/attributes.h"
#include "rules/override_text.h"
#include "server/api/resp/command.h"
#include "server/api/resp/command_handler.h"
#include "server/decide/rule_counters.h"
#include "server/net/fiber.h"

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

// Returns the counter, which has a block, of the rule, the limit and the attributes in the
// arguments; or writes an error. Borrows from the rules.
std::optional<RuleCounter> find_counter(CommandHandler& handler, const Call& call,
                                        const RuleSet& rules,
                                        std::span<const std::string_view> attributes) {
  if (!read_attributes(attributes, handler, call.reply)) return std::nullopt;
  const std::string_view rule_name = call.arguments[1];
  const std::string_view limit_name = call.arguments[2];
  const auto named = name_override(rules, rule_name, limit_name, handler.attributes,
                                   {.kind = Override::Kind::kBlocked});
  if (!named) {
    call.reply.error("ERR " + named.error());
    return std::nullopt;
  }
  const Rule& rule = *rules.find(rule_name);
  for (RuleCounter& counter : counters_of(rules, rule, handler.attributes)) {
    if (counter.limit->name != limit_name) continue;
    if (counter.limit->block) return std::move(counter);
    break;
  }
  call.reply.error("ERR the limit " + shown(limit_name) + " of the rule " + shown(rule_name) +
                   " has no block; expected a limit with 'block:' in the rules, or an override, "
                   "which blocks a key of any limit: RL.OVERRIDE SET " +
                   shown(rule_name) + " " + shown(limit_name) + " ... LIMIT blocked");
  return std::nullopt;
}

// Returns nothing if the store did not do it; then writes an error.
std::optional<Decision> apply(CommandHandler& handler, const Call& call, const RuleCounter& counter,
                              Action action) {
  const Decision done =
      handler.parts.session.limiter.store().apply_one(action, counter.charge(1), {});
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
  const RuleSet rules = handler.parts.session.rules.current();
  const auto found = find_counter(handler, call, rules, attributes);
  if (found && apply(handler, call, *found, {Verb::kBlock, *time})) call.reply.ok();
}

void unblock(CommandHandler& handler, const Call& call) {
  const RuleSet rules = handler.parts.session.rules.current();
  const auto found = find_counter(handler, call, rules, call.arguments.subspan(3));
  if (!found) return;
  const auto before = apply(handler, call, *found, Verb::kPeek);
  if (!before || !apply(handler, call, *found, Verb::kUnblock)) return;
  call.reply.integer(before->reason == Reason::kBlocked ? 1 : 0);
}

// RL.TOP: the most asked and the most denied keys of a rule.
namespace {

using insight::TopKeysQuery;

// Sets a value that was read. Returns false if the reply has become an error.
template <typename T>
bool set_option(std::string_view option, std::string_view value, const Expected<T>& read, T& to,
                Reply& reply) {
  if (read) {
    to = *read;
    return true;
  }
  reply.error("ERR " + std::string(option) + " is " + shown(value) + "; expected " + read.error());
  return false;
}

bool read_top_option(std::string_view name, std::string_view value, TopKeysQuery& query,
                     Reply& reply) {
  if (same_word(name, "BY"))
    return set_option(name, value, insight::read_top_by(value), query.by, reply);
  if (same_word(name, "OVER"))
    return set_option(name, value, insight::read_span(value), query.over, reply);
  if (same_word(name, "LIMIT")) {
    query.limit = value;
    return true;
  }
  if (same_word(name, "COUNT")) {
    const auto most = read_number(value, {"COUNT", 1, insight::KeyFrame::kMostKeys}, reply);
    if (most) query.most = static_cast<std::size_t>(*most);
    return most.has_value();
  }
  reply.error("ERR " + shown(name) + " is not an option; expected LIMIT, BY, OVER or COUNT");
  return false;
}

bool names_a_limit(const Rule& rule, std::string_view limit, Reply& reply) {
  std::string names;
  for (const RuleLimit& one : rule.limits) {
    if (limit.empty() || one.name == limit) return true;
    names.append(names.empty() ? "" : ", ").append(one.name);
  }
  reply.error("ERR the rule " + shown(rule.name) + " has no limit " + shown(limit) +
              (names.empty() ? "" : "; expected one of: " + names));
  return false;
}

void write_keys(const insight::TopLimit& limit, Reply& reply) {
  reply.map(3);
  reply.member("limit", limit.limit);
  reply.member("total", limit.total);
  reply.bulk("keys");
  reply.array(limit.keys.size());
  for (const insight::TopKey& key : limit.keys) {
    reply.map(3);
    reply.member("key", key.text);
    reply.member("count", key.count);
    reply.member("error", key.error);
  }
}

}  // namespace

void top(CommandHandler& handler, const Call& call) {
  if (handler.parts.top_keys == nullptr || !handler.parts.top_keys->is_on()) {
    return call.reply.error(
        "ERR this server does not count keys; expected top_keys over 0 in its configuration, and "
        "log.keys plain or hash");
  }
  const RuleSet rules = handler.parts.session.rules.current();
  const Rule* const rule = rules.find(call.arguments[1]);
  if (rule == nullptr) {
    return call.reply.error("ERR there is no rule " + shown(call.arguments[1]));
  }
  TopKeysQuery query{.rule = rule->name};
  const auto options = call.arguments.subspan(2);
  if (options.size() % 2 != 0) {
    return call.reply.error(
        "ERR " + shown(options.back()) +
        " has no value; expected pairs of LIMIT, BY, OVER or COUNT and a value");
  }
  for (std::size_t i = 0; i < options.size(); i += 2) {
    if (!read_top_option(options[i], options[i + 1], query, call.reply)) return;
  }
  if (!names_a_limit(*rule, query.limit, call.reply)) return;
  const auto limits = handler.parts.top_keys->top(query);
  call.reply.array(limits.size());
  for (const insight::TopLimit& limit : limits) write_keys(limit, call.reply);
}

// RL.OVERRIDE: the overrides of single keys.
namespace {

using std::chrono::milliseconds;

constexpr auto kMost = static_cast<std::int64_t>(kMaxAmount);

bool read_limit(std::string_view value, Override& given, Reply& reply) {
  if (same_word(value, "blocked") || same_word(value, "unlimited")) {
    given.kind =
        same_word(value, "blocked") ? Override::Kind::kBlocked : Override::Kind::kUnlimited;
    return true;
  }
  const auto units = read_number(value, {"LIMIT", 0, kMost}, reply);
  if (units) given.limit = static_cast<std::uint64_t>(*units);
  return units.has_value();
}

bool read_end(std::string_view value, Override& given, Reply& reply) {
  const auto now = std::chrono::floor<milliseconds>(SystemClock().now().time_since_epoch());
  const auto last = std::chrono::floor<milliseconds>(kLastInstant.time_since_epoch());
  const auto ms = read_number(value, {"UNTIL", now.count() + 1, last.count()}, reply);
  if (ms) given.until = Instant{milliseconds{*ms}};
  return ms.has_value();
}

constexpr std::array<std::string_view, 5> kOptions = {"LIMIT", "PLAN", "PER", "BURST", "UNTIL"};

// Reads one of kOptions. Returns false if the reply has become an error.
bool read_option(std::string_view option, std::string_view value, Override& given, Reply& reply) {
  if (option == "LIMIT") return read_limit(value, given, reply);
  if (option == "UNTIL") return read_end(value, given, reply);
  if (option == "PLAN") {
    given.kind = Override::Kind::kPlan;
    given.plan = value;
    return true;
  }
  if (option == "PER") {
    const auto wrong = rules::set_period(value, given);
    if (wrong) reply.error("ERR PER: " + *wrong);
    return !wrong;
  }
  const auto units = read_number(value, {"BURST", 0, kMost}, reply);
  if (units) given.burst = static_cast<std::uint64_t>(*units);
  return units.has_value();
}

// Reads the options at the end of the words and removes them. Returns false if the reply has become
// an error.
bool read_override(std::span<const std::string_view>& words, Override& given, Reply& reply) {
  std::vector<std::string_view> seen;
  const auto has = [&](std::string_view option) {
    return std::ranges::find(seen, option) != seen.end();
  };
  while (words.size() >= 2 && words.size() % 2 == 0) {
    const auto* const option = std::ranges::find_if(
        kOptions, [&](std::string_view one) { return same_word(words[words.size() - 2], one); });
    if (option == kOptions.end()) break;
    if (has(*option)) {
      reply.error("ERR " + std::string(*option) + " is given twice");
      return false;
    }
    seen.push_back(*option);
    if (!read_option(*option, words.back(), given, reply)) return false;
    words = words.first(words.size() - 2);
  }
  if (has("LIMIT") == has("PLAN")) {
    reply.error("ERR expected one of LIMIT and PLAN after the attributes");
    return false;
  }
  if (given.kind == Override::Kind::kNumbers || (!given.per && !given.calendar && !given.burst)) {
    return true;
  }
  reply.error("ERR PER and BURST are for numbers; expected LIMIT with a number");
  return false;
}

// Removes "attribute." from the names; it is for attributes with the name of an option.
std::vector<std::string_view> without_marks(std::span<const std::string_view> words) {
  constexpr std::string_view kMark = "attribute.";
  std::vector<std::string_view> out(words.begin(), words.end());
  for (std::size_t i = 0; i < out.size(); i += 2) {
    if (out[i].starts_with(kMark)) out[i].remove_prefix(kMark.size());
  }
  return out;
}

std::vector<std::string> names_in(std::span<const std::string_view> words) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < words.size(); i += 2) names.push_back(rules::normalized(words[i]));
  return names;
}

// Returns the counter of the rule, the limit and the attributes in the arguments; or writes an
// error.
std::optional<std::string> counter_of(CommandHandler& handler, const Call& call,
                                      std::span<const std::string_view> words,
                                      const Override& given) {
  if (handler.parts.overrides == nullptr) {
    call.reply.error("ERR this server has no overrides");
    return std::nullopt;
  }
  const std::vector<std::string_view> attributes = without_marks(words);
  if (!read_attributes(attributes, handler, call.reply)) return std::nullopt;
  const RuleSet rules = handler.parts.session.rules.current();
  const std::string_view rule = call.arguments[2];
  const std::string_view limit = call.arguments[3];
  if (const auto wrong = rules::find_place_error(rules, rule, limit, names_in(attributes))) {
    call.reply.error("ERR " + wrong->what);
    return std::nullopt;
  }
  auto counter = name_override(rules, rule, limit, handler.attributes, given);
  if (counter) return std::move(*counter);
  call.reply.error("ERR " + counter.error());
  return std::nullopt;
}

redis::Client* client_of(const CommandHandler& handler) {
  return handler.parts.redis ? handler.parts.redis() : nullptr;
}

void put_override(Reply& reply, std::string_view counter, const Override& given) {
  const bool is_word = given.kind != Override::Kind::kPlan;
  const std::string period = rules::period_of(given);
  reply.map(2 + (period.empty() ? 0U : 1U) + (given.burst ? 1U : 0U) + (given.until ? 1U : 0U));
  reply.member("counter", counter);
  reply.bulk(is_word ? "limit" : "plan");
  switch (given.kind) {
    case Override::Kind::kNumbers: reply.integer(static_cast<std::int64_t>(given.limit)); break;
    case Override::Kind::kPlan: reply.bulk(given.plan); break;
    case Override::Kind::kBlocked: reply.bulk("blocked"); break;
    case Override::Kind::kUnlimited: reply.bulk("unlimited"); break;
  }
  if (!period.empty()) {
    reply.member("per", period);
  }
  if (given.burst) {
    reply.member("burst", *given.burst);
  }
  if (given.until) {
    reply.member("until_ms",
                 std::chrono::ceil<milliseconds>(given.until->time_since_epoch()).count());
  }
}

// Changes overrides, in another thread if that writes a file. Returns what `change` does.
template <typename Change>
Expected<ServerOverrides::Before> make_change(const CommandHandler& handler, const Change& change) {
  if (!handler.parts.run_elsewhere || net::current_fiber() == nullptr) return change();
  Expected<ServerOverrides::Before> result = ServerOverrides::Before();
  handler.parts.run_elsewhere([&] { result = change(); });
  return result;
}

// An override that every limit can have.
Override any_override() { return {.kind = Override::Kind::kBlocked}; }

}  // namespace

void set_override(CommandHandler& handler, const Call& call) {
  auto words = call.arguments.subspan(4);
  Override given;
  if (!read_override(words, given, call.reply)) return;
  const auto counter = counter_of(handler, call, words, given);
  if (!counter) return;
  const auto set = make_change(handler, [&] {
    return handler.parts.overrides->set_through(client_of(handler), *counter, given);
  });
  if (!set) return call.reply.error("ERR " + set.error());
  call.reply.ok();
}

void unset_override(CommandHandler& handler, const Call& call) {
  const auto counter = counter_of(handler, call, call.arguments.subspan(4), any_override());
  if (!counter) return;
  const auto was_there = make_change(handler, [&] {
    return handler.parts.overrides->unset_through(client_of(handler), *counter);
  });
  if (!was_there) return call.reply.error("ERR " + was_there.error());
  call.reply.integer(*was_there ? 1 : 0);
}

void get_override(CommandHandler& handler, const Call& call) {
  const auto counter = counter_of(handler, call, call.arguments.subspan(4), any_override());
  if (!counter) return;
  const auto found = handler.parts.overrides->all().find(*counter);
  if (!found) return call.reply.null();
  put_override(call.reply, *counter, *found);
}

}  // namespace sluice::server::resp::commands
