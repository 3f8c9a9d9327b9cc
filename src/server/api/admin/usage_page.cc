// Who has spent what: the entries of the ledger, added up.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "base/request_target.h"
#include "rules/diagnostics.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"

namespace sluice::server::pages {
namespace {

using base::in_quotes;

constexpr std::size_t kMostSpenders = 100'000;

// What a request asks for.
struct Wanted {
  std::optional<std::string> rule, limit;
  std::optional<Instant> from = {}, to = {};

  bool is_of(const LedgerLine& line) const {
    return (!rule || line.rule == *rule) && (!limit || line.limit == *limit);
  }
  bool has(const LedgerLine& line) const {
    return line.spent != 0 && is_of(line) && (!from || line.at >= *from) && (!to || line.at < *to);
  }
  // Whether entries may be missing that it asks for, those before the instant of the gap.
  bool misses(const LedgerLine& gap) const {
    return (gap.rule.empty() || is_of(gap)) && (!from || gap.at > *from);
  }
};

// Reads an instant or a day of UTC into `out`. If it is neither, writes that into the answer, and
// returns false.
bool read_bound(const Call& call, std::string_view name, std::optional<Instant>& out) {
  const auto given = call.parameter(name);
  if (!given) return true;
  const std::string instant = given->size() == 10 ? *given + "T00:00:00Z" : *given;
  out = base::parse_rfc3339(instant);
  if (out) return true;
  const std::string_view expected = expected_instant(
      instant, "expected an instant such as 2026-11-01T12:00:00Z, or a day such as 2026-11-01");
  answer(call, 400, in_quotes(name) + " is " + in_quotes(*given) + "; " + std::string(expected));
  return false;
}

std::optional<Wanted> wanted_in(const Call& call) {
  Wanted wanted{.rule = call.parameter("rule"), .limit = call.parameter("limit")};
  if (!read_bound(call, "from", wanted.from) || !read_bound(call, "to", wanted.to)) {
    return std::nullopt;
  }
  return wanted;
}

// Returns what is wrong if no rule has the name that was asked for, or an empty text. `seen`: the
// ledger has the rule and the limit, of earlier rules perhaps.
std::string find_missing(const Call& call, const Wanted& wanted, bool seen) {
  if (seen) return {};
  const RuleSet rules = call.admin.rules.current();
  if (wanted.rule) {
    const Rule* const rule = rules.find(*wanted.rule);
    if (rule == nullptr) {
      return "there is no rule " + in_quotes(*wanted.rule) +
             ", and the ledger has none; expected " + one_of(rules.rules(), *wanted.rule);
    }
    const bool has_limit =
        !wanted.limit ||
        std::ranges::find(rule->limits, *wanted.limit, &RuleLimit::name) != rule->limits.end();
    if (has_limit) return {};
    return "rule " + in_quotes(rule->name) + " has no limit " + in_quotes(*wanted.limit) +
           ", and the ledger has none; expected " + one_of(rule->limits, *wanted.limit);
  }
  if (!wanted.limit) return {};
  for (const Rule& rule : rules.rules()) {
    const auto& limits = rule.limits;
    if (std::ranges::find(limits, *wanted.limit, &RuleLimit::name) != limits.end()) return {};
  }
  return "no rule has a limit " + in_quotes(*wanted.limit) +
         ", and the ledger has none; expected the name of a limit";
}

using Counter = std::tuple<std::string, std::string, std::string>;  // rule, limit, key

void write_rows(JsonWriter& json, const std::map<Counter, std::int64_t>& spent, std::size_t most) {
  std::vector<const std::pair<const Counter, std::int64_t>*> rows;
  std::int64_t total = 0;
  for (const auto& row : spent) {
    rows.push_back(&row);
    total += row.second;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return a->second > b->second; });
  const bool more = rows.size() > most;
  rows.resize(std::min(rows.size(), most));
  json.key("usage").begin_array();
  for (const auto* const row : rows) {
    const auto& [rule, limit, key] = row->first;
    json.begin_object();
    if (!rule.empty()) json.member("rule", rule).member("limit", limit);
    json.member("key", key).member("spent", row->second).end_object();
  }
  json.end_array().member("total", total).member("more", more);
}

}  // namespace

void show_usage(const Call& call) {
  const auto wanted = wanted_in(call);
  if (!wanted) return;
  std::map<Counter, std::int64_t> spent;
  bool is_whole = true;
  bool has_gap = false;
  bool is_seen = false;  // the rule and the limit
  const auto see = [&](const LedgerLine& line) {
    if (line.kind == "gap") has_gap |= wanted->misses(line);
    is_seen |= wanted->is_of(line);
    if (!wanted->has(line)) return;
    const Counter counter(line.rule, line.limit, line.key);
    const auto at =
        spent.size() < kMostSpenders ? spent.try_emplace(counter).first : spent.find(counter);
    if (at == spent.end()) {
      is_whole = false;
    } else {
      at->second += line.spent;
    }
  };
  const Status read = call.admin.read_ledger ? call.admin.read_ledger(see)
                                             : Status(Unexpected{std::string("no ledger")});
  if (!read) return answer(call, 409, read.error());
  if (const std::string missing = find_missing(call, *wanted, is_seen); !missing.empty()) {
    return answer(call, 404, missing);
  }
  if (!is_whole) {
    return answer(call, 409,
                  "more than 100000 counters have spent something; expected "
                  "?rule=NAME, &limit=NAME, a later &from=, or sluice ledger "
                  "sum");
  }
  JsonWriter json;
  json.begin_object();
  if (wanted->from) json.member("from", *wanted->from);
  if (wanted->to) json.member("to", *wanted->to);
  write_rows(json, spent, call.number("count", kListed));
  if (has_gap) json.member("gap", true);
  answer(call.response, 200, json.end_object());
}

}  // namespace sluice::server::pages
