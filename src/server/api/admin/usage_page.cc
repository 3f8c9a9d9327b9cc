// Who has spent what: the entries of the ledger, added up.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"

namespace sluice::server::pages {
namespace {

using base::in_quotes;

constexpr std::size_t kMostSpenders = 100'000;

// What a request asks for.
struct Wanted {
  std::optional<std::string> rule, limit;
  std::optional<Instant> from, to;

  bool has(const LedgerLine& line) const {
    return line.spent != 0 && (!rule || line.rule == *rule) && (!limit || line.limit == *limit) &&
           (!from || line.at >= *from) && (!to || line.at < *to);
  }
  // Whether entries may be missing that it asks for, those before the instant of the gap.
  bool misses(const LedgerLine& gap) const {
    const bool is_of =
        gap.rule.empty() || ((!rule || gap.rule == *rule) && (!limit || gap.limit == *limit));
    return is_of && (!from || gap.at > *from);
  }
};

// Reads an instant or a day of UTC into `out`. If it is neither, writes that into the answer, and
// returns false.
bool read_bound(const Call& call, std::string_view name, std::optional<Instant>& out) {
  Buffers buffers;
  const auto given = call.parameter(name, buffers);
  if (!given) return true;
  const std::string text(*given);
  out = base::parse_rfc3339(text.size() == 10 ? text + "T00:00:00Z" : text);
  if (out) return true;
  answer(call.response, {400, in_quotes(name) + " is " + in_quotes(text) +
                                  "; expected an instant such as 2026-11-01T12:00:00Z, or a day "
                                  "such as 2026-11-01"});
  return false;
}

std::optional<Wanted> wanted_in(const Call& call) {
  Wanted wanted;
  if (!read_bound(call, "from", wanted.from) || !read_bound(call, "to", wanted.to)) {
    return std::nullopt;
  }
  Buffers buffers;
  if (const auto rule = call.parameter("rule", buffers)) wanted.rule = *rule;
  if (const auto limit = call.parameter("limit", buffers)) wanted.limit = *limit;
  return wanted;
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
  const auto count = count_in(call);
  if (!count) return;
  std::map<Counter, std::int64_t> spent;
  bool is_whole = true;
  bool has_gap = false;
  const auto see = [&](const LedgerLine& line) {
    if (line.kind == "gap") has_gap |= wanted->misses(line);
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
  if (!read) return answer(call.response, {409, read.error()});
  if (!is_whole) {
    return answer(call.response, {409,
                                  "more than 100000 counters have spent something; expected "
                                  "?rule=NAME, &limit=NAME, a later &from=, or sluice ledger "
                                  "sum"});
  }
  JsonWriter json;
  json.begin_object();
  if (wanted->from) json.member("from", *wanted->from);
  if (wanted->to) json.member("to", *wanted->to);
  write_rows(json, spent, *count);
  if (has_gap) json.member("gap", true);
  answer(call.response, 200, json.end_object());
}

}  // namespace sluice::server::pages
