#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rules/attributes.h"
#include "rules/override_text.h"
#include "server/api/resp/arguments.h"
#include "server/api/resp/command_handler.h"

// RL.OVERRIDE: the overrides of single keys.
namespace sluice::server::resp::commands {
namespace {

using std::chrono::milliseconds;

constexpr auto kMost = static_cast<std::int64_t>(kMaxUnits);

// An override, and which of its options were given.
struct Given {
  Override given;
  std::array<bool, 5> seen{};
};

enum class Option : std::uint8_t { kLimit, kPlan, kPer, kBurst, kUntil };
constexpr std::array<std::string_view, 5> kOptions = {"LIMIT", "PLAN", "PER", "BURST", "UNTIL"};

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

// Returns false if the reply has become an error.
bool read_option(Option option, std::string_view value, Given& into, Reply& reply) {
  Override& given = into.given;
  switch (option) {
    case Option::kLimit: return read_limit(value, given, reply);
    case Option::kPlan:
      given.kind = Override::Kind::kPlan;
      given.plan = value;
      return true;
    case Option::kPer: {
      const auto wrong = rules::set_period(value, given);
      if (wrong) reply.error("ERR PER: " + *wrong);
      return !wrong;
    }
    case Option::kBurst: {
      const auto units = read_number(value, {"BURST", 0, kMost}, reply);
      if (units) given.burst = static_cast<std::uint64_t>(*units);
      return units.has_value();
    }
    case Option::kUntil: return read_end(value, given, reply);
  }
  return false;
}

std::optional<Option> option_of(std::string_view name) {
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    if (same_word(name, kOptions[i])) return static_cast<Option>(i);
  }
  return std::nullopt;
}

bool check_whole(const Given& into, Reply& reply) {
  const auto has = [&](Option option) { return into.seen[static_cast<std::size_t>(option)]; };
  if (has(Option::kLimit) == has(Option::kPlan)) {
    reply.error("ERR expected one of LIMIT and PLAN after the attributes");
    return false;
  }
  const Override& given = into.given;
  if (given.kind == Override::Kind::kNumbers || (!given.per && !given.calendar && !given.burst)) {
    return true;
  }
  reply.error("ERR PER and BURST are for numbers; expected LIMIT with a number");
  return false;
}

// Reads the options at the end of the words and removes them. Returns false if the reply has become
// an error.
bool read_override(std::span<const std::string_view>& words, Given& into, Reply& reply) {
  while (words.size() >= 2 && words.size() % 2 == 0) {
    const auto option = option_of(words[words.size() - 2]);
    if (!option) break;
    bool& seen = into.seen[static_cast<std::size_t>(*option)];
    if (seen) {
      reply.error("ERR " + std::string(kOptions[static_cast<std::size_t>(*option)]) +
                  " is given twice");
      return false;
    }
    seen = true;
    if (!read_option(*option, words.back(), into, reply)) return false;
    words = words.first(words.size() - 2);
  }
  return check_whole(into, reply);
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
  if (handler.overrides == nullptr) {
    call.reply.error("ERR this server has no overrides");
    return std::nullopt;
  }
  const std::vector<std::string_view> attributes = without_marks(words);
  if (!read_attributes(attributes, handler, call.reply)) return std::nullopt;
  const RuleSet rules = handler.rules.current();
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
  return handler.redis ? handler.redis() : nullptr;
}

void put_override(Reply& reply, std::string_view counter, const Override& given) {
  const bool is_word = given.kind != Override::Kind::kPlan;
  const std::string period = rules::period_of(given);
  reply.map(2 + (period.empty() ? 0U : 1U) + (given.burst ? 1U : 0U) + (given.until ? 1U : 0U));
  reply.bulk("counter");
  reply.bulk(counter);
  reply.bulk(is_word ? "limit" : "plan");
  switch (given.kind) {
    case Override::Kind::kNumbers: reply.integer(static_cast<std::int64_t>(given.limit)); break;
    case Override::Kind::kPlan: reply.bulk(given.plan); break;
    case Override::Kind::kBlocked: reply.bulk("blocked"); break;
    case Override::Kind::kUnlimited: reply.bulk("unlimited"); break;
  }
  if (!period.empty()) {
    reply.bulk("per");
    reply.bulk(period);
  }
  if (given.burst) {
    reply.bulk("burst");
    reply.integer(static_cast<std::int64_t>(*given.burst));
  }
  if (given.until) {
    reply.bulk("until_ms");
    reply.integer(std::chrono::ceil<milliseconds>(given.until->time_since_epoch()).count());
  }
}

// An override that every limit can have.
Override any_override() { return {.kind = Override::Kind::kBlocked}; }

}  // namespace

void set_override(CommandHandler& handler, const Call& call) {
  auto words = call.arguments.subspan(4);
  Given into;
  if (!read_override(words, into, call.reply)) return;
  const auto counter = counter_of(handler, call, words, into.given);
  if (!counter) return;
  const auto set = handler.overrides->set_through(client_of(handler), *counter, into.given);
  if (!set) return call.reply.error("ERR " + set.error());
  call.reply.ok();
}

void unset_override(CommandHandler& handler, const Call& call) {
  const auto counter = counter_of(handler, call, call.arguments.subspan(4), any_override());
  if (!counter) return;
  const auto was_there = handler.overrides->unset_through(client_of(handler), *counter);
  if (!was_there) return call.reply.error("ERR " + was_there.error());
  call.reply.integer(*was_there ? 1 : 0);
}

void get_override(CommandHandler& handler, const Call& call) {
  const auto counter = counter_of(handler, call, call.arguments.subspan(4), any_override());
  if (!counter) return;
  const auto found = handler.overrides->all().find(*counter);
  if (!found) return call.reply.null();
  put_override(call.reply, *counter, *found);
}

}  // namespace sluice::server::resp::commands
