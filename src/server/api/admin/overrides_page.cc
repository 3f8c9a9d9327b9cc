#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rules/counter_key.h"
#include "rules/override_text.h"
#include "server/api/admin/override_body.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/query_attributes.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server::pages {
namespace {

// The limit that a path names: "RULE/LIMIT", with %2F for a slash in the name of the rule.
struct Place {
  std::string rule, limit;
};

std::optional<Place> place_of(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == path.npos || slash == 0 || slash + 1 == path.size()) return std::nullopt;
  return Place{decoded(path.substr(0, slash)), decoded(path.substr(slash + 1))};
}

void write_override(JsonWriter& json, std::string_view counter, const Override& given) {
  json.member("counter", rules::utf8_counter_key(counter));
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

void answer_override(const Call& call, std::string_view counter, const Override& given) {
  JsonWriter json;
  json.begin_object();
  write_override(json, counter, given);
  answer(call.response, 200, json.end_object());
}

// Answers that the override cannot be named, and returns nothing; else returns its counter.
std::optional<std::string> name_it(const Call& call, const Place& place,
                                   std::span<const std::string> names,
                                   const AttributeSource& attributes, const Override& given) {
  const RuleSet rules = call.parts.rules.current();
  if (const auto wrong = rules::find_place_error(rules, place.rule, place.limit, names)) {
    answer(call.response, {wrong->lacks_limit ? 404 : 400, wrong->what});
    return std::nullopt;
  }
  auto counter = name_override(rules, place.rule, place.limit, attributes, given);
  if (counter) return std::move(*counter);
  answer(call.response, {400, counter.error()});
  return std::nullopt;
}

std::string no_override_of(std::string_view counter) {
  return "there is no override of " + rules::utf8_counter_key(counter);
}

void put(const Call& call, const Place& place) {
  const auto body = read_override_body(call.request.body, SystemClock().now());
  if (!body) return answer(call.response, {400, body.error()});
  const auto counter = name_it(call, place, body->names, body->attributes, body->given);
  if (!counter) return;
  if (counter->size() > Overrides::kLongestKey) {
    return answer(call.response, {400, too_long(*counter)});
  }
  const bool fits = call.overrides()->size() < call.overrides()->most() ||
                    call.overrides()->find(*counter).has_value();
  if (const auto set = call.parts.overrides->set(*counter, body->given); !set) {
    return answer(call.response, {fits ? 503 : 409, set.error()});
  }
  call.done("override set: " + *counter);
  answer_override(call, *counter, body->given);
}

void remove(const Call& call, const std::string& counter) {
  const auto was_there = call.parts.overrides->unset(counter);
  if (!was_there) return answer(call.response, {503, was_there.error()});
  if (!*was_there) return answer(call.response, {404, no_override_of(counter)});
  call.done("override removed: " + counter);
  JsonWriter json;
  json.begin_object().member("counter", rules::utf8_counter_key(counter));
  answer(call.response, 200, json.end_object());
}

// Whether the counter is of a rule with this name, in any domain.
bool is_of(std::string_view counter, std::string_view rule) {
  counter.remove_prefix(std::min(counter.find('|'), counter.size()));
  return counter.starts_with(rule);
}

// Lists the overrides of a rule that is not there: `marked` is "|RULE|".
Overrides::Page list_unknown(const Overrides& overrides, std::uint64_t from, std::size_t most,
                             std::string_view marked) {
  constexpr std::size_t kAtOnce = 1000;
  Overrides::Page found{{}, from};
  while (found.next && found.entries.size() < most) {
    Overrides::Page page = overrides.list(*found.next, std::min(most, kAtOnce));
    for (auto& entry : page.entries) {
      if (is_of(entry.counter, marked)) found.entries.push_back(std::move(entry));
    }
    found.next = page.next;
  }
  return found;
}

// Lists overrides of the rule in the query, or of all rules. Answers that there is no such rule and
// that it has no overrides, and returns nothing.
std::optional<Overrides::Page> list(const Call& call, std::uint64_t from, std::size_t most) {
  Buffers buffers;
  const auto name = find_query(call.query, "rule", buffers);
  if (!name) return call.overrides()->list(from, most);
  std::string marked = "|";
  rules::append_escaped(marked, *name, rules::Escape::kName);
  marked += '|';
  const RuleSet rules = call.parts.rules.current();
  if (const Rule* rule = rules.find(*name)) {
    std::string prefix;
    rules::append_escaped(prefix, rule->domain, rules::Escape::kName);
    return call.overrides()->list(from, most, prefix + marked);
  }
  Overrides::Page page = list_unknown(*call.overrides(), from, most, marked);
  if (from > 0 || !page.entries.empty()) return page;
  const std::string detail = "there is no rule '" + std::string(*name) + "', and no override of it";
  answer(call.response, {404, detail});
  return std::nullopt;
}

}  // namespace

std::string too_long(std::string_view counter) {
  return "the key has " + std::to_string(counter.size()) + " bytes; expected at most " +
         std::to_string(Overrides::kLongestKey);
}

bool lacks_overrides(const Call& call) {
  if (call.parts.overrides != nullptr) return false;
  answer(call.response, {404, "this server has no overrides; expected one with a memory store"});
  return true;
}

void list_overrides(const Call& call) {
  if (lacks_overrides(call)) return;
  constexpr std::uint64_t kMost = 10'000, kUsual = 1000;
  const std::uint64_t count =
      std::clamp<std::uint64_t>(number_in(call.query, "count", kUsual), 1, kMost);
  const auto page = list(call, number_in(call.query, "cursor", 0), count);
  if (!page) return;
  JsonWriter json;
  json.begin_object().member("total", std::uint64_t{call.overrides()->size()});
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
  Buffers buffers;
  const auto counter = find_query(call.query, "counter", buffers);
  if (!counter) {
    return answer(call.response, {400,
                                  "the counter is missing; expected ?counter=COUNTER, as GET "
                                  "/v1/overrides shows it"});
  }
  const auto key = rules::parse_counter_key(*counter);
  if (!key) return answer(call.response, {400, key.error()});
  const bool is_there = call.overrides()->find(*counter).has_value();
  remove(call, is_there ? std::string(*counter) : key->text());
}

bool handle_override(const Call& call, std::string_view path) {
  const std::string_view method = call.request.method;
  const bool changes = method == "PUT" || method == "DELETE";
  if (!changes && method != "GET" && method != "HEAD") return false;
  if (lacks_overrides(call)) return true;
  const auto place = place_of(path);
  if (!place) {
    answer(call.response, {404, "the path names no limit; expected /v1/overrides/RULE/LIMIT"});
    return true;
  }
  if (method == "PUT") {
    put(call, *place);
    return true;
  }
  const Override any{.kind = Override::Kind::kBlocked};
  const auto counter = name_it(call, *place, {}, QueryAttributes(call.query), any);
  if (!counter) return true;
  if (changes) {
    remove(call, *counter);
  } else if (const auto found = call.overrides()->find(*counter)) {
    answer_override(call, *counter, *found);
  } else {
    answer(call.response, {404, no_override_of(*counter)});
  }
  return true;
}

}  // namespace sluice::server::pages
