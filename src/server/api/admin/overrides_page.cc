#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/json_reader.h"
#include "base/json_schema.h"
#include "base/quoted.h"
#include "base/request_target.h"
#include "core/period.h"
#include "rules/attributes.h"
#include "rules/counter_key.h"
#include "rules/override_text.h"
#include "rules/rule_set.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"
#include "server/decide/named_attributes.h"

namespace sluice::server::pages {
namespace {

using base::JsonProblem;
using base::JsonValue;
using Kind = Override::Kind;

constexpr std::string_view kMembers =
    "expected attributes, one of limit, plan, blocked and unlimited, and per, burst, for or until";
constexpr std::string_view kNames = "expected counter, or rule, limit_name and attributes";
constexpr std::string_view kUnits = "expected a whole number from 0 to 9007199254740991";
constexpr std::string_view kText = "expected a text";
constexpr std::string_view kPlan = "expected the name of a plan";
constexpr std::string_view kPeriod = "expected a period such as \"1m\" or \"month\"";
constexpr std::string_view kInstant = "expected an instant such as \"2027-10-01T00:00:00Z\"";
constexpr std::string_view kTwoEnds = "the override says twice when it ends";
constexpr std::string_view kOneEnd = "expected one of 'for' and 'until'";
constexpr std::string_view kTexts = "expected an object whose members are texts";

// The body of PUT /v1/overrides/RULE/LIMIT, or a line of POST /v1/overrides, which names its
// counter, or a rule, a limit and attributes.
struct GivenOverride {
  std::string counter = {}, rule = {}, limit_name = {};
  bool has_attributes = false;
  Attributes attributes = {};
  std::vector<std::string> names = {};  // of the attributes
  bool has_kind = false;
  bool has_lease = false;
  Override given = {};

  bool set_kind(Kind kind, JsonProblem& problem) {
    if (has_kind) return problem.is("the override says more than one thing", kMembers);
    given.kind = kind;
    return has_kind = true;
  }

  bool set_name(const JsonValue& value, JsonProblem& problem) {
    if (value.text.empty()) return problem.is_value("empty", kText);
    (value.name == "counter" ? counter : value.name == "rule" ? rule : limit_name) = value.text;
    return true;
  }

  bool set_limit(const JsonValue& value, JsonProblem& problem) {
    given.limit = value.number;
    return set_kind(Kind::kNumbers, problem);
  }

  bool set_plan(const JsonValue& value, JsonProblem& problem) {
    if (value.text.empty()) return problem.is_value("empty", kPlan);
    given.plan = value.text;
    return set_kind(Kind::kPlan, problem);
  }

  bool set_until(const JsonValue& value, JsonProblem& problem) {
    if (given.until) return problem.is(std::string(kTwoEnds), kOneEnd);
    given.until = base::parse_rfc3339(value.text);
    return given.until ||
           problem.is_value(base::in_quotes(value.text), expected_instant(value.text, kInstant));
  }

  bool set_for(const JsonValue& value, JsonProblem& problem) {
    if (given.until) return problem.is(std::string(kTwoEnds), kOneEnd);
    const auto length = core::parse_period(value.text);
    if (!length) return problem.is("'for': " + length.error(), {});
    if (*length < kMinPeriod || *length > kMaxPeriod) {
      return problem.is("'for': " + base::in_quotes(value.text) + " is out of range",
                        "expected 1ms to 366d");
    }
    given.until = SystemClock().now() + *length;
    return true;
  }

  bool add_attribute(const JsonValue& value, JsonProblem& problem) {
    std::string name = rules::normalized(value.name);
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return problem.is("the attribute " + base::in_quotes(name) + " is given twice",
                        "expected it once");
    }
    attributes.set(name, value.text);
    names.push_back(std::move(name));
    return true;
  }

  bool set_period(const JsonValue& value, JsonProblem& problem) {
    if (given.per || given.calendar) {
      return problem.is("'per' and 'lease' mean the same", "expected one of them");
    }
    if (value.text.empty()) return problem.is_value("empty", kPeriod);
    has_lease = value.name == "lease";
    const auto wrong = rules::set_period(value.text, given);
    return !wrong || problem.is(base::in_quotes(value.name) + ": " + *wrong, {});
  }

  // Returns what is wrong with the override itself, "WHAT; EXPECTED"; empty if nothing is.
  std::string find_problem() const {
    const bool has_numbers = given.per || given.calendar || given.burst;
    if (!has_kind && has_numbers)
      return "the override lacks 'limit'; expected it with these numbers";
    if (!has_kind) return "the override says nothing; " + std::string(kMembers);
    if (given.kind == Kind::kNumbers || !has_numbers) return {};
    return "'per' and 'burst' are for numbers; expected 'limit' with them";
  }
};

using Member = base::JsonMember<GivenOverride>;
using Object = base::JsonObject<GivenOverride>;

using base::json_into;

template <Kind Given>
bool set_kind(GivenOverride& of, const JsonValue&, JsonProblem& problem) {
  return of.set_kind(Given, problem);
}

constexpr Member kAttribute[] = {
    {"", base::kJsonText, kTexts, json_into<&GivenOverride::add_attribute>}};
constexpr Object kAttributes(kAttribute, nullptr, true);

constexpr Member kOfLine[] = {
    {"counter", base::kJsonText, kText, json_into<&GivenOverride::set_name>},
    {"rule", base::kJsonText, kText, json_into<&GivenOverride::set_name>},
    {"limit_name", base::kJsonText, kText, json_into<&GivenOverride::set_name>},
    {.name = "attributes",
     .kinds = base::kJsonObject,
     .expected = kTexts,
     .set = json_into<&GivenOverride::has_attributes>,
     .object = &kAttributes},
    {"limit", base::kJsonWhole, kUnits, json_into<&GivenOverride::set_limit>, kMaxAmount},
    {"plan", base::kJsonText, kPlan, json_into<&GivenOverride::set_plan>},
    {"blocked", base::kJsonTrue, "expected true", set_kind<Kind::kBlocked>},
    {"unlimited", base::kJsonTrue, "expected true", set_kind<Kind::kUnlimited>},
    {"per", base::kJsonText, kPeriod, json_into<&GivenOverride::set_period>},
    {"lease", base::kJsonText, kPeriod, json_into<&GivenOverride::set_period>},
    {"burst", base::kJsonWhole, kUnits, json_into<&GivenOverride::given, &Override::burst>,
     kMaxAmount},
    {"until", base::kJsonText, kInstant, json_into<&GivenOverride::set_until>},
    {"for", base::kJsonText, kPeriod, json_into<&GivenOverride::set_for>}};

constexpr Object kLine(kOfLine, nullptr, false,
                       "expected counter, or rule, limit_name and attributes, and limit, plan, "
                       "blocked or unlimited, and per, burst, for or until");
constexpr Object kBody(std::span<const Member>(kOfLine).subspan(3), nullptr, false, kMembers);
constexpr Member kOfBody{.kinds = base::kJsonObject, .object = &kBody};

Expected<GivenOverride> read_given(std::string_view json, const Member& top,
                                   std::string_view not_an_object) {
  GivenOverride read;
  JsonProblem problem;
  if (base::JsonReader<GivenOverride>().read(json, top, read, problem)) return read;
  return Unexpected{problem.message_by_path(not_an_object)};
}

// The override may have ended, and may say nothing.
Expected<GivenOverride> read_line(std::string_view json) {
  auto line =
      read_given(json, {.kinds = base::kJsonObject, .object = &kLine},
                 "the line is not a JSON object; expected {\"counter\":\"...\",\"limit\":100}");
  if (!line) return line;
  const bool has_place = !line->rule.empty() || !line->limit_name.empty() || line->has_attributes;
  const bool is_whole = !line->rule.empty() && !line->limit_name.empty();
  if (line->counter.empty() ? is_whole : !has_place) return line;
  return Unexpected{"the line does not name one counter; " + std::string(kNames)};
}

constexpr std::string_view kNumbersInZone =
    "another server divides the limits (store: quota://); expected 'limit' in that server";

bool is_zone(const Call& call) {
  return call.admin.status && call.admin.status().store.kind == "quota";
}

Expected<GivenOverride> read_body(std::string_view json, Instant now) {
  auto body =
      read_given(json, kOfBody,
                 "the body is not a JSON object; expected {\"attributes\":{...},\"limit\":100}");
  if (!body) return body;
  if (auto wrong = body->find_problem(); !wrong.empty()) return Unexpected{std::move(wrong)};
  if (!body->given.until || *body->given.until > now) return body;
  return Unexpected{"'until' is " + base::to_rfc3339(*body->given.until) +
                    "; expected an instant in the future"};
}

}  // namespace
}  // namespace sluice::server::pages

// POST /v1/overrides: sets many overrides, one JSON object a line.
namespace sluice::server::pages {
namespace {

using Entry = Overrides::Page::Entry;

// Returns why the limit of the counter does not have such a period, or an empty text.
std::string find_lease_problem(const RuleSet& rules, const GivenOverride& of,
                               std::string_view counter) {
  if (!of.has_lease) return {};
  const auto place = rules::place_of(rules, counter);
  if (!place || place->limit.limit.algorithm() == Algorithm::kConcurrency) return {};
  return "'lease' is for 'concurrency'; expected 'per'";
}

Unexpected<rules::OverrideError> wrong(std::string what) { return {{std::move(what)}}; }

Expected<Entry, rules::OverrideError> read_entry(const RuleSet& rules, std::string_view text) {
  auto line = read_line(text);
  if (!line) return wrong(std::move(line.error()));
  if (line->counter.empty()) {
    auto place = rules::find_place_error(rules, line->rule, line->limit_name, line->names);
    if (place) return Unexpected{std::move(*place)};
  }
  if (auto problem = line->find_problem(); !problem.empty()) return wrong(std::move(problem));
  if (line->counter.empty()) {
    auto named = name_override(rules, line->rule, line->limit_name, line->attributes, line->given);
    if (!named) return wrong(std::move(named.error()));
    line->counter = std::move(*named);
  } else {
    auto checked = rules::check_counter(rules, line->counter, line->given);
    if (!checked) return Unexpected{std::move(checked.error())};
    line->counter = std::move(*checked);
  }
  if (auto problem = find_lease_problem(rules, *line, line->counter); !problem.empty()) {
    return wrong(std::move(problem));
  }
  if (line->counter.size() > Overrides::kLongestKey) return wrong(too_long(line->counter));
  return Entry{std::move(line->counter), std::move(line->given)};
}

void answer_wrong(const Call& call, std::uint64_t number, const rules::OverrideError& error) {
  std::string members = "\"line\":" + std::to_string(number);
  if (error.lacks_limit) members += ",\"unknown\":true";
  if (!error.unknown_name.empty()) {
    members += ",\"attribute\":" + base::json_string(error.unknown_name);
  }
  answer(call.response, {400, error.what}, members);
}

bool has_flag(const Call& call, std::string_view name) { return call.parameter(name) == "true"; }

// Returns the counter of a line that blocks a key, if its limit has a `block`, so that the store
// keeps it as PUT /v1/blocks does. It cannot be in the store if its tag is not known.
std::optional<RuleCounter> counter_to_block(const RuleSet& rules, const Entry& entry, Instant now) {
  const Override& given = entry.given;
  if (given.kind != Kind::kBlocked || !given.until) return std::nullopt;
  if (*given.until - now < kMinPeriod || *given.until - now > kMaxPeriod) return std::nullopt;
  const auto place = rules::place_of(rules, entry.counter);
  if (!place || !place->limit.block || !place->rule.tag.empty()) return std::nullopt;
  return RuleCounter{.limit = &place->limit,
                     .key = entry.counter,
                     .label = {},
                     .tag = {},
                     .missing = {},
                     .plan = {},
                     .numbers = place->limit.limit,
                     .id = rules.impl().compiled_of(place->rule, place->limit).id};
}

// The overrides of an import, without those that have ended.
struct Import {
  std::vector<Entry> entries;
  // Of keys that have another override, which stays.
  std::vector<std::pair<RuleCounter, Duration>> blocks;
  // The counters, and whether each has an override that is no block.
  std::unordered_map<std::string, bool> seen;
  std::uint64_t added = 0;

  void add(const Call& call, const RuleSet& rules, Entry entry, Instant now) {
    const auto [known, is_first] = seen.try_emplace(entry.counter);
    if (is_first) {
      const auto there = call.overrides()->find(entry.counter);
      known->second = there && there->kind != Kind::kBlocked;
      added += there ? 0 : 1;
    }
    auto to_block = known->second ? counter_to_block(rules, entry, now) : std::nullopt;
    if (to_block) {
      blocks.emplace_back(std::move(*to_block), *entry.given.until - now);
      return;
    }
    known->second = entry.given.kind != Kind::kBlocked;
    entries.push_back(std::move(entry));
  }
  // Returns false after answering that it is not done.
  bool set(const Call& call) const {
    const auto set = call.admin.overrides->set_all(entries, has_flag(call, "more"));
    if (!set) {
      answer(call, 503, set.error());
      return false;
    }
    for (const auto& [counter, length] : blocks) {
      const Decision said =
          call.admin.limiter.store().apply_one({Verb::kBlock, length}, counter.charge(1), {});
      if (said.allowed()) continue;
      answer_failed(call, counter, said, false);
      return false;
    }
    call.done("overrides set: " + std::to_string(entries.size()) +
              (blocks.empty() ? "" : ", keys blocked: " + std::to_string(blocks.size())));
    return true;
  }
};

}  // namespace

void import_overrides(const Call& call) {
  if (lacks_overrides(call)) return;
  const RuleSet rules = call.admin.rules.current();
  const Instant now = SystemClock().now();
  const bool skips_unknown = has_flag(call, "skip_unknown");
  const bool refuses_numbers = is_zone(call);
  Import import;
  std::uint64_t number = 0, count = 0, ended = 0;
  std::vector<std::uint64_t> unknown;  // lines of a rule or a limit that is not there
  for (const std::string_view text : lines_of(call.request.body)) {
    ++number;
    if (text.empty()) continue;
    ++count;
    auto entry = read_entry(rules, text);
    if (refuses_numbers && entry && entry->given.kind == Kind::kNumbers) {
      return answer_wrong(call, number, {std::string(kNumbersInZone)});
    }
    if (!entry && (!skips_unknown || !entry.error().lacks_limit)) {
      return answer_wrong(call, number, entry.error());
    }
    if (!entry) {
      unknown.push_back(number);
    } else if (entry->given.until && *entry->given.until <= now) {
      ++ended;
    } else {
      import.add(call, rules, std::move(*entry), now);
    }
  }
  const std::uint64_t there = call.overrides()->size();
  const std::uint64_t most = call.overrides()->most();
  const std::uint64_t room = most - std::min(there, most);
  if (import.added > room) {
    return answer(call, 409,
                  "there are " + std::to_string(there) + " overrides and " +
                      std::to_string(import.added) + " new ones; expected at most " +
                      std::to_string(most) + " together");
  }
  if (!has_flag(call, "dry_run") && !import.set(call)) return;
  JsonWriter json;
  json.begin_object().member("count", count).member("ended", ended);
  json.member("new", import.added).member("room", room);
  if (!unknown.empty()) {
    constexpr std::size_t kShown = 20;
    json.member("unknown", std::uint64_t{unknown.size()});
    unknown.resize(std::min(unknown.size(), kShown));
    json.array("unknown_lines", unknown);
  }
  answer(call.response, 200, json.end_object());
}

void write_override(JsonWriter& json, const Override& given) {
  switch (given.kind) {
    case Override::Kind::kNumbers: json.member("limit", given.limit); break;
    case Override::Kind::kPlan: json.member("plan", given.plan); break;
    case Override::Kind::kBlocked: json.member("blocked", true); break;
    case Override::Kind::kUnlimited: json.member("unlimited", true); break;
  }
  if (given.per || given.calendar) json.member("per", rules::period_of(given));
  if (given.burst) json.member("burst", *given.burst);
  if (given.until) json.member("until", *given.until);
}

void write_override(JsonWriter& json, std::string_view counter, const Override& given) {
  json.member("counter", rules::utf8_counter_key(counter));
  write_override(json, given);
}

namespace {

// `was`: what the key had before, if the override was just set; `replaced`: its earlier override.
void answer_override(const Call& call, std::string_view counter, const Override& given,
                     std::string_view was = {}, const std::optional<Override>& replaced = {}) {
  JsonWriter json;
  json.begin_object();
  write_override(json, counter, given);
  if (!was.empty()) json.member("was", was);
  if (replaced) {
    json.key("replaced").begin_object();
    write_override(json, *replaced);
    json.end_object();
  }
  answer(call.response, 200, json.end_object());
}

// Reads the limit that the path names, "RULE/LIMIT", with %2F for a slash in the name of the rule.
// Returns false after answering that it names none.
bool read_path(const Call& call, GivenOverride& of) {
  if (lacks_overrides(call)) return false;
  const std::string_view path = call.name;
  const std::size_t slash = path.find('/');
  if (slash == path.npos || slash == 0 || slash + 1 == path.size()) {
    answer(call, 404, "the path names no limit; expected /v1/overrides/RULE/LIMIT");
    return false;
  }
  of.rule = base::decoded(path.substr(0, slash));
  of.limit_name = base::decoded(path.substr(slash + 1));
  return true;
}

// Answers that the override cannot be named, and returns nothing; else returns its counter.
std::optional<std::string> name_it(const Call& call, const GivenOverride& of,
                                   const AttributeSource& attributes) {
  const RuleSet rules = call.admin.rules.current();
  if (const auto wrong = rules::find_place_error(rules, of.rule, of.limit_name, of.names)) {
    return refuse(call, wrong->lacks_limit ? 404 : 400, wrong->what);
  }
  auto counter = name_override(rules, of.rule, of.limit_name, attributes, of.given);
  if (!counter) return refuse(call, 400, counter.error());
  if (const auto problem = find_lease_problem(rules, of, *counter); !problem.empty()) {
    return refuse(call, 400, problem);
  }
  return std::move(*counter);
}

// "override set: COUNTER: limit 100 per 2m burst 5, until 2100-01-01T00:00:00Z", for the log.
std::string said_of(std::string_view counter, const Override& given) {
  const std::string text = override_text(given);
  constexpr std::string_view kBlocked = "blocked";
  if (given.kind != Override::Kind::kBlocked)
    return "override set: " + std::string(counter) + ": " + text;
  return "key blocked: " + std::string(counter) + text.substr(kBlocked.size());
}

std::string no_override_of(std::string_view counter) {
  return "there is no override of " + rules::utf8_counter_key(counter);
}

// Returns what a key has by these overrides: "60 per 1m", "blocked" or "unlimited".
std::string state_of(const Call& call, const GivenOverride& of, const Overrides& overrides) {
  const RuleSet rules = call.admin.rules.current();
  const Rule* const rule = rules.find(of.rule);
  if (rule == nullptr) return {};
  for (const RuleCounter& counter : counters_of(rules, *rule, of.attributes, &overrides)) {
    if (counter.limit->name != of.limit_name) continue;
    const auto given = overrides.find(counter.key);
    if (given && given->kind == Override::Kind::kBlocked) return "blocked";
    if (given && given->kind == Override::Kind::kUnlimited) return "unlimited";
    return core::format_limit(counter.numbers);
  }
  return {};
}

void remove(const Call& call, const std::string& counter) {
  const auto removed = call.admin.overrides->unset(counter);
  if (!removed) return answer(call, 503, removed.error());
  const auto lost = call.admin.lost != nullptr ? call.admin.lost->forget(counter) : std::nullopt;
  if (!*removed && !lost) return answer(call, 404, no_override_of(counter));
  call.done((*removed ? "override removed: " : "lost override forgotten: ") + counter);
  answer_override(call, counter, *removed ? **removed : *lost);
}

// Returns the counter that the path and the attributes of the query name, or nothing after
// answering why there is none.
std::optional<std::string> counter_in(const Call& call) {
  GivenOverride any{.given = {.kind = Override::Kind::kBlocked}};
  if (!read_path(call, any)) return std::nullopt;
  Buffers buffers;
  return name_it(call, any, AttributesBy([&](std::string_view name) {
                   return find_attribute(call.query, name, buffers);
                 }));
}

// Lists those that Redis has lost: at most OverridesLost::kMost, so that one page has room for all.
Overrides::Page list_lost(const Call& call, std::size_t most) {
  Overrides::Page page;
  OverridesLost* const lost = call.admin.lost;
  if (lost == nullptr) return page;
  lost->update(*call.overrides(), SystemClock().now());
  const auto name = call.parameter("rule");
  for (const auto& [counter, given] : lost->missing()) {
    if (page.entries.size() == most) break;
    if (!name || rules::is_of_rule(counter, *name)) page.entries.push_back({counter, given});
  }
  return page;
}

// Lists overrides of the rule in the query, or of all rules. Answers that there is no such rule and
// that it has no overrides, and returns nothing.
std::optional<Overrides::Page> list(const Call& call, std::uint64_t from, std::size_t most) {
  const auto name = call.parameter("rule");
  Overrides::Page page = call.overrides()->list(from, most, name);
  if (!name) return page;
  const RuleSet rules = call.admin.rules.current();
  if (from > 0 || !page.entries.empty() || rules.find(*name) != nullptr) return page;
  return refuse(call, 404, "there is no rule '" + *name + "', and no override of it");
}

}  // namespace

std::string too_long(std::string_view counter) {
  return "the key has " + std::to_string(counter.size()) + " bytes; expected at most " +
         std::to_string(Overrides::kLongestKey);
}

bool lacks_overrides(const Call& call) {
  if (call.admin.overrides != nullptr) return false;
  answer(call, 404, "this server has no overrides; expected one with a memory store");
  return true;
}

void list_overrides(const Call& call) {
  if (lacks_overrides(call)) return;
  const std::uint64_t count = call.number("count", kListed);
  const bool are_lost = has_flag(call, "lost");
  const auto page = are_lost ? list_lost(call, count) : list(call, call.number("cursor", 0), count);
  if (!page) return;
  JsonWriter json;
  const std::size_t total = are_lost ? page->entries.size() : call.overrides()->size();
  json.begin_object().member("total", std::uint64_t{total});
  json.key("overrides").begin_array();
  for (const auto& [counter, given] : page->entries) {
    json.begin_object();
    write_override(json, counter, given);
    json.end_object();
  }
  json.end_array();
  if (page->next) json.member("next", std::to_string(*page->next));
  answer(call.response, 200, json.end_object());
}

void remove_counter(const Call& call) {
  if (lacks_overrides(call)) return;
  const auto counter = call.parameter("counter");
  if (!counter) {
    return answer(call, 400,
                  "the counter is missing; expected ?counter=COUNTER, as GET "
                  "/v1/overrides shows it");
  }
  const auto key = rules::parse_counter_key(*counter);
  if (!key) return answer(call, 400, key.error());
  const bool is_there = call.overrides()->find(*counter).has_value();
  remove(call, is_there ? *counter : key->text());
}

void show_override(const Call& call) {
  const auto counter = counter_in(call);
  if (!counter) return;
  const auto found = call.overrides()->find(*counter);
  if (!found) return answer(call, 404, no_override_of(*counter));
  answer_override(call, *counter, *found);
}

void set_override(const Call& call) {
  GivenOverride path;
  if (!read_path(call, path)) return;
  auto body = read_body(call.request.body, SystemClock().now());
  if (!body) return answer(call, 400, body.error());
  if (body->given.kind == Kind::kNumbers && is_zone(call)) {
    return answer(call, 400, kNumbersInZone);
  }
  body->rule = std::move(path.rule);
  body->limit_name = std::move(path.limit_name);
  const auto counter = name_it(call, *body, body->attributes);
  if (!counter) return;
  if (counter->size() > Overrides::kLongestKey) {
    return answer(call, 400, too_long(*counter));
  }
  const Overrides& all = *call.overrides();
  const bool fits = all.size() < all.most() || all.find(*counter);
  const auto replaced = call.admin.overrides->set(*counter, body->given);
  if (!replaced) return answer(call, fits ? 503 : 409, replaced.error());
  call.done(said_of(*counter, body->given));
  Overrides before(1);
  if (*replaced) static_cast<void>(before.set(*counter, **replaced));
  answer_override(call, *counter, body->given, state_of(call, *body, before), *replaced);
}

void remove_override(const Call& call) {
  if (const auto counter = counter_in(call)) remove(call, *counter);
}

void write_override_schema(JsonWriter& json) { base::write_json_schema(json, kOfBody); }

}  // namespace sluice::server::pages
