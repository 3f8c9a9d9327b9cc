#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "core/period.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"
#include "server/protocol/http/request_target.h"
#include "sluice/limit.h"

namespace sluice::server::pages {
namespace {

using base::in_quotes;

// The counters of a request that have blocks. If there are none, writes the reason into the answer.
std::optional<Selection> find_blocks(const Call& call) {
  auto chosen = Selection::of(call);
  if (!chosen) return std::nullopt;
  for (const RuleCounter& counter : chosen->counters()) {
    if (counter.limit->block) return chosen;
  }
  std::string what = "the rule " + in_quotes(chosen->rule().name);
  if (chosen->counters().size() == 1) {
    what = "the limit " + in_quotes(chosen->counters().front().limit->name) + " of " + what;
  }
  const std::string detail =
      what +
      " has no block; expected a limit with 'block:' in the rules, or an override, which blocks a "
      "key of any limit: PUT /v1/overrides/RULE/LIMIT with \"blocked\":true, or 'sluice overrides "
      "set RULE/LIMIT NAME=VALUE --blocked'";
  answer(call.response, {404, detail});
  return std::nullopt;
}

// Returns the time from now until an instant such as "2026-12-01T00:00:00Z".
Expected<Duration> time_until(std::string_view text) {
  if (const auto until = base::parse_rfc3339(text)) return *until - SystemClock().now();
  return Unexpected{in_quotes(text) + " is no instant; expected one such as 2026-12-01T00:00:00Z"};
}

// How long a key is to be blocked. If that is wrong, writes the reason into the answer.
std::optional<Duration> find_length(const Call& call) {
  Buffers buffers, until_buffers;
  const auto text = find_query(call.query, "for", buffers);
  const auto until = find_query(call.query, "until", until_buffers);
  if (text.has_value() == until.has_value()) {
    answer(call.response, {400,
                           "expected one of 'for' and 'until': how long to block, such as "
                           "&for=15m, or &until=2026-12-01T00:00:00Z"});
    return std::nullopt;
  }
  auto length = text ? core::parse_period(*text) : time_until(*until);
  if (length && *length >= kMinPeriod && *length <= kMaxPeriod) return *length;
  const std::string detail =
      (text ? "'for': " : "'until': ") +
      (length ? in_quotes(text ? *text : *until) + " is out of range; expected 1ms to 366d" +
                    (text ? "" : " from now")
              : length.error());
  answer(call.response, {400, detail});
  return std::nullopt;
}

// Asks for every block, and answers with their state.
void answer_blocks(const Call& call, const Selection& chosen, Action action) {
  Store& store = call.admin.limiter.store();
  JsonWriter json;
  json.begin_object().member("rule", chosen.rule().name).key("limits").begin_array();
  for (const RuleCounter& counter : chosen.counters()) {
    if (!counter.limit->block) continue;
    json.begin_object().member("name", counter.limit->name);
    if (!write_key(json, counter)) {
      json.end_object();
      continue;
    }
    Decision said = store.apply_one(action, counter.charge(1), {});
    if (action.verb != Verb::kPeek && said.allowed()) {
      const std::string done = action.verb == Verb::kBlock ? "key blocked: " : "key unblocked: ";
      call.done(done + counter.key);
      said = store.apply_one(Verb::kPeek, counter.charge(1), {});
    }
    if (said.outcome == Outcome::kFailed) return answer_failed(call, counter, said);
    const bool is_blocked = said.reason == Reason::kBlocked;
    json.member("blocked", is_blocked);
    if (is_blocked) {
      json.member("blocked_for_ms", milliseconds(said.retry_after.value_or(Duration{0})));
    }
    json.end_object();
  }
  answer(call.response, 200, json.end_array().end_object());
}

// Answers with the blocks that hold, whatever the rule.
void list_blocks(const Call& call) {
  if (!call.admin.find_blocks) return answer(call.response, {404, "this server has no blocks"});
  const auto found = call.admin.find_blocks(count_in(call.query));
  if (!found) return answer(call.response, {503, "the blocks cannot be read: " + found.error()});
  JsonWriter json;
  json.begin_object().key("blocks").begin_array();
  for (const BlockedKey& block : found->blocks) {
    json.begin_object().member("counter", block.key);
    if (!block.tag.empty()) json.member("tag", block.tag);
    json.member("until", block.until).end_object();
  }
  answer(call.response, 200, json.end_array().member("more", found->more).end_object());
}

}  // namespace

void show_blocks(const Call& call) {
  Buffers buffers;
  if (!find_query(call.query, "rule", buffers)) return list_blocks(call);
  const auto chosen = find_blocks(call);
  if (chosen) answer_blocks(call, *chosen, Verb::kPeek);
}

void start_blocks(const Call& call) {
  const auto chosen = find_blocks(call);
  if (!chosen || !chosen->may_change(call, "block")) return;
  if (const auto length = find_length(call)) {
    answer_blocks(call, *chosen, {Verb::kBlock, *length});
  }
}

void end_blocks(const Call& call) {
  const auto chosen = find_blocks(call);
  if (!chosen || !chosen->may_change(call, "unblock")) return;
  answer_blocks(call, *chosen, Verb::kUnblock);
}

}  // namespace sluice::server::pages
