#include "rules/override_text.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "core/calendar.h"
#include "core/limit.h"
#include "core/period.h"
#include "rules/counter_key.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/plans.h"
#include "rules/rule_changes.h"
#include "rules/rule_set.h"

namespace sluice {
namespace {

using rules::in_quotes;

// The calendar of a unit, in the time zone of a limit's own calendar. Errors: see Calendar::make().
Expected<const Calendar*> calendar_with(CalendarUnit unit, const Calendar* own) {
  if (own != nullptr && own->spec().unit == unit) return own;
  CalendarSpec spec{.unit = unit};
  if (own != nullptr) spec.zone = own->spec().zone;
  return Calendar::make(spec);
}

Expected<LimitSpec> spec_with(const Override& given, const Limit& own) {
  LimitSpec spec = core::spec_of(own);
  spec.limit = given.limit;
  if (given.per) {
    spec.per = *given.per;
    spec.calendar = nullptr;
  }
  if (given.calendar) {
    const auto calendar = calendar_with(*given.calendar, own.calendar());
    if (!calendar) return Unexpected{calendar.error()};
    spec.calendar = *calendar;
  }
  spec.burst = given.burst;
  return spec;
}

// "WHAT; expected one of: a, b or c".
template <typename Named>
std::string expected_one_of(const std::string& what, const Named& all) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string_view> names;
  names.reserve(all.size());
  for (const auto& one : all) names.push_back(one.name);
  const bool is_long = names.size() > kMost;
  if (is_long) names.resize(kMost);
  if (names.empty()) return what + "; expected rules with that name";
  return what + "; expected one of: " + rules::either(names) + (is_long ? ", ..." : "");
}

std::string why_no_plan(const Rule& rule, const RuleLimit& limit, const Override& given) {
  const std::string in_rule = "the rule " + in_quotes(rule.name);
  if (rule.plans.empty())
    return in_rule + " has no plans; expected 'limit', 'blocked' or 'unlimited'";
  if (!rules::find_plan(rule, given.plan)) {
    return "there is no plan " + in_quotes(given.plan) +
           "; expected one of: " + rules::either(rule.plans);
  }
  if (!limit.by_plan.empty()) return {};
  return "no plan has numbers for the limit " + in_quotes(limit.name) +
         "; expected 'limit', 'blocked' or 'unlimited'";
}

// Returns why the limit cannot have the override, or an empty text.
std::string find_term_problem(const Rule& rule, const RuleLimit& limit, const Override& given) {
  if (given.kind == Override::Kind::kPlan) return why_no_plan(rule, limit, given);
  if (given.kind != Override::Kind::kNumbers) return {};
  const auto spec = spec_with(given, limit.limit);
  if (!spec) return spec.error();
  const LimitError error = find_error(*spec);
  return error == LimitError::kNone ? std::string() : explain(error, *spec);
}

Expected<const RuleLimit*> find_limit(const RuleSet& rules, std::string_view rule_name,
                                      std::string_view limit_name) {
  const Rule* rule = rules.find(rule_name);
  if (rule == nullptr) {
    return Unexpected{expected_one_of("there is no rule " + in_quotes(rule_name), rules.rules())};
  }
  const auto limit = std::ranges::find(rule->limits, limit_name, &RuleLimit::name);
  if (limit != rule->limits.end() && !rules.impl().compiled_of(*rule, *limit).removed) {
    return &*limit;
  }
  return Unexpected{
      expected_one_of("the rule " + in_quotes(rule_name) + " has no limit " + in_quotes(limit_name),
                      sluice::rules::without_removed(rules, *rule).limits)};
}

// Returns the counter of the limit, or nothing if an attribute of its key is missing.
std::optional<std::string> fill_key(const RuleSet& rules, const rules::CompiledLimit& compiled,
                                    const AttributeSource& attributes) {
  rules::AttributeValues values;
  values.begin(rules.impl().attributes, attributes);
  std::string counter = compiled.prefix;
  std::string scratch;
  std::size_t end = 0;
  if (!compiled.key.fill(values, counter, end, scratch)) return std::nullopt;
  counter.resize(end);
  return counter;
}

// Returns the names of the attributes that the key of the limit reads.
std::vector<std::string_view> names_read(const RuleSet& rules,
                                         const rules::CompiledLimit& compiled) {
  const auto& names = rules.impl().attributes.names();
  std::vector<std::string_view> read;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    if (compiled.key.reads(i)) read.push_back(names[i]);
  }
  return read;
}

// The attributes of a request with the counter. A part "ip/24/64=192.0.2.0/24" is of an address in
// this network; of several networks the smallest counts.
Attributes attributes_of(const rules::CounterKey& key) {
  constexpr int kWhole = 1000;
  Attributes attributes;
  std::vector<std::pair<std::string_view, int>> bits_of;
  for (const rules::CounterKey::Part& part : key.parts) {
    if (!part.has_value) continue;
    const std::size_t slash = part.name.find('/');
    const std::string_view name = std::string_view(part.name).substr(0, slash);
    const std::size_t end = slash == part.name.npos ? part.value.npos : part.value.rfind('/');
    int bits = slash == part.name.npos ? kWhole : kWhole - 1;
    if (end != part.value.npos) {
      std::from_chars(part.value.data() + end + 1, part.value.data() + part.value.size(), bits);
    }
    const bool is_less = std::ranges::any_of(
        bits_of, [&](const auto& known) { return known.first == name && known.second >= bits; });
    if (is_less) continue;
    bits_of.emplace_back(name, bits);
    attributes.set(name, std::string_view(part.value).substr(0, end));
  }
  return attributes;
}

// Returns the counter of requests with the attributes of the key, if it is the same one. Errors:
// what the counter should be.
Expected<std::string> named_again(const RuleSet& rules, const rules::CompiledLimit& compiled,
                                  const rules::CounterKey& key) {
  auto filled = fill_key(rules, compiled, attributes_of(key));
  if (filled && *filled == key.text()) return *std::move(filled);
  Attributes any;
  for (const std::string_view name : names_read(rules, compiled)) any.set(name, "VALUE");
  if (!filled) filled = fill_key(rules, compiled, any);
  return Unexpected{"the counter does not have the key of its limit; expected '" +
                    filled.value_or("") + "'"};
}

}  // namespace

std::optional<rules::OverrideError> rules::find_place_error(const RuleSet& rules,
                                                            std::string_view rule_name,
                                                            std::string_view limit_name,
                                                            std::span<const std::string> names) {
  const auto limit = find_limit(rules, rule_name, limit_name);
  if (!limit) return OverrideError{limit.error(), true};
  const auto read = names_read(rules, rules.impl().compiled_of(*rules.find(rule_name), **limit));
  for (const std::string& name : names) {
    if (std::ranges::find(read, name) != read.end()) continue;
    const auto& known = rules.impl().attributes.names();
    const bool is_known = std::ranges::find(known, name) != known.end();
    // A program may send all attributes of a request. For a counter of all requests that would
    // look like an override of one key.
    if (is_known && !read.empty()) continue;
    std::string what = "the key of the limit " + in_quotes(limit_name) +
                       " does not read the attribute " + in_quotes(name) + "; expected ";
    what += (read.empty() ? "no attributes" : either(read)) + did_you_mean(name, read);
    return OverrideError{std::move(what), false, is_known ? std::string() : name};
  }
  return std::nullopt;
}

std::optional<rules::CounterPlace> rules::place_of(const RuleSet& rules, std::string_view counter) {
  const auto key = parse_counter_key(counter);
  if (!key) return std::nullopt;
  const auto limit = find_limit(rules, key->rule, key->limit);
  if (!limit) return std::nullopt;
  const Rule& rule = *rules.find(key->rule);
  if (rule.domain != key->domain) return std::nullopt;
  return CounterPlace{rule, **limit};
}

Expected<std::string, rules::OverrideError> rules::check_counter(const RuleSet& rules,
                                                                 std::string_view counter,
                                                                 const Override& given) {
  const auto key = parse_counter_key(counter);
  if (!key) return Unexpected{OverrideError{key.error()}};
  const auto limit = find_limit(rules, key->rule, key->limit);
  if (!limit) return Unexpected{OverrideError{limit.error(), true}};
  const Rule& rule = *rules.find(key->rule);
  if (rule.domain != key->domain) {
    return Unexpected{OverrideError{"the rule " + in_quotes(key->rule) + " is not of the domain " +
                                        in_quotes(key->domain) + "; expected " +
                                        in_quotes(rule.domain),
                                    true}};
  }
  auto named = named_again(rules, rules.impl().compiled_of(rule, **limit), *key);
  if (!named) return Unexpected{OverrideError{std::move(named.error())}};
  if (std::string problem = find_term_problem(rule, **limit, given); !problem.empty()) {
    return Unexpected{OverrideError{std::move(problem)}};
  }
  return *std::move(named);
}

Expected<std::string> name_override(const RuleSet& rules, std::string_view rule_name,
                                    std::string_view limit_name, const AttributeSource& attributes,
                                    const Override& given) {
  const auto limit = find_limit(rules, rule_name, limit_name);
  if (!limit) return Unexpected{limit.error()};
  const Rule& rule = *rules.find(rule_name);
  if (std::string problem = find_term_problem(rule, **limit, given); !problem.empty()) {
    return Unexpected{std::move(problem)};
  }
  auto counter = fill_key(rules, rules.impl().compiled_of(rule, **limit), attributes);
  if (counter) return std::move(*counter);
  return Unexpected{"an attribute of the key " + in_quotes((*limit)->key) + " of the limit " +
                    in_quotes(limit_name) + " is missing; expected all of them"};
}

Limit rules::numbers_with(const Override& given, const Rule& rule, const RuleLimit& limit,
                          const Limit& planned) {
  if (given.kind == Override::Kind::kPlan) {
    const auto plan = rules::find_plan(rule, given.plan);
    return plan && *plan < limit.by_plan.size() ? limit.by_plan[*plan] : planned;
  }
  if (given.kind != Override::Kind::kNumbers) return planned;
  const auto spec = spec_with(given, planned);
  if (!spec) return planned;
  const auto numbers = Limit::make(*spec);
  return numbers ? *numbers : planned;
}

Limit rules::OverrideNumbers::with(const Override& given, const Rule& rule, const RuleLimit& limit,
                                   const Limit& planned) {
  if (given.kind != Override::Kind::kNumbers) return numbers_with(given, rule, limit, planned);
  const std::uint64_t mixed =
      given.limit + given.burst.value_or(0) * 7 + std::uint64_t{planned.capacity()} * 31;
  auto& known = known_[mixed % known_.size()];
  const auto numbers = std::tie(given.limit, given.per, given.calendar, given.burst, planned);
  if (!known || known->first != numbers) {
    known.emplace(numbers, numbers_with(given, rule, limit, planned));
  }
  return known->second;
}

}  // namespace sluice

namespace sluice::rules {
namespace {

constexpr std::string_view kWords =
    "expected limit=NUMBER, plan=NAME, blocked or unlimited, then per=, burst= and until=";

// Reads "NAME=VALUE" or "NAME" into the override. Returns whether it is right.
bool read_word(std::string_view name, std::string_view value, Override& given) {
  if (name == "blocked" || name == "unlimited") {
    given.kind = name == "blocked" ? Override::Kind::kBlocked : Override::Kind::kUnlimited;
    return value.empty();
  }
  if (name == "plan") {
    auto plan = unescaped(value);
    given.kind = Override::Kind::kPlan;
    if (plan) given.plan = std::move(*plan);
    return plan && !given.plan.empty();
  }
  if (name == "per") {
    return !set_period(value, given);
  }
  const auto number = whole_number(value);
  if (!number) return false;
  if (name == "until") {
    if (*number > static_cast<std::uint64_t>(kLastInstant.time_since_epoch().count())) return false;
    given.until = Instant{Duration{static_cast<Duration::rep>(*number)}};
  } else if (name == "limit") {
    given.limit = *number;
  } else if (name == "burst") {
    given.burst = number;
  } else {
    return false;
  }
  return true;
}

}  // namespace

void append_text(const Override& given, std::string& out) {
  switch (given.kind) {
    case Override::Kind::kNumbers: out.append("limit=").append(std::to_string(given.limit)); break;
    case Override::Kind::kPlan: append_word(out += "plan=", given.plan); break;
    case Override::Kind::kBlocked: out += "blocked"; break;
    case Override::Kind::kUnlimited: out += "unlimited"; break;
  }
  if (given.per || given.calendar) out.append(" per=").append(period_of(given));
  if (given.burst) out.append(" burst=").append(std::to_string(*given.burst));
  if (given.until) {
    out.append(" until=").append(std::to_string(given.until->time_since_epoch().count()));
  }
}

std::optional<std::string> set_period(std::string_view text, Override& given) {
  given.calendar = core::calendar_unit_from(text);
  if (given.calendar) return std::nullopt;
  const auto period = core::parse_limit_period(text);
  if (!period) return period.error();
  given.per = *period;
  return std::nullopt;
}

std::string period_of(const Override& given) {
  if (given.calendar) return std::string(core::name_of(*given.calendar));
  return given.per ? core::format_period(*given.per) : std::string();
}

Expected<Override> parse_override(std::string_view text) {
  Override given;
  for (bool is_first = true; is_first || !text.empty(); is_first = false) {
    const std::string_view word = base::take_until(text, ' ');
    std::string_view value = word;
    const std::string_view name = base::take_until(value, '=');
    const bool is_kind =
        name == "limit" || name == "plan" || name == "blocked" || name == "unlimited";
    if (is_kind != is_first || !read_word(name, value, given)) {
      return Unexpected{in_quotes(word) + " is not a part of an override; " + std::string(kWords)};
    }
  }
  return given;
}

}  // namespace sluice::rules
