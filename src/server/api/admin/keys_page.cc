#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/quoted.h"
#include "base/request_target.h"
#include "core/period.h"
#include "insight/top_keys.h"
#include "limiter/answer.h"
#include "rules/diagnostics.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"

namespace sluice::server::pages {
namespace {

using insight::TopKeysQuery;

// Returns nothing after answering that there is no such rule or limit.
std::optional<TopKeysQuery> read_query(const Call& call, const RuleSet& rules) {
  TopKeysQuery out;
  if (const auto by = call.parameter("by")) {
    if (const auto read = insight::read_top_by(*by)) out.by = *read;
  }
  if (const auto over = call.parameter("over")) {
    if (const auto read = insight::read_span(*over)) out.over = *read;
  }
  out.most = call.number("count", call.number("n", out.most));
  const auto rule_name = call.parameter("rule");
  const auto limit = call.parameter("limit");
  if (limit) out.limit = *limit;
  if (!rule_name) {
    if (limit) return refuse(call, 400, "'limit' needs a rule; expected rule=NAME too");
    return out;
  }
  out.rule = *rule_name;
  const Rule* const rule = find_rule(call, rules, out.rule);
  if (rule == nullptr) return std::nullopt;
  const auto is_it = [&](const RuleLimit& one) { return one.name == out.limit; };
  if (!limit || std::ranges::any_of(rule->limits, is_it)) return out;
  answer_no_limit(call, *rule, out.limit);
  return std::nullopt;
}

// Writes what is known of the latest denied request of a key.
void write_latest(JsonWriter& json, const insight::TopLimit& limit, const std::string& key,
                  const std::vector<RecentDenial>& denials) {
  const auto found = std::find_if(denials.rbegin(), denials.rend(), [&](const RecentDenial& one) {
    return one.key == key && one.limit == limit.limit && one.rule == limit.rule;
  });
  if (found == denials.rend()) return;
  json.key("latest").begin_object();
  if (!found->client.empty()) json.key("client").visible_value(found->client);
  if (!found->agent.empty()) json.key("agent").visible_value(found->agent);
  if (!found->path.empty()) json.key("path").visible_value(found->path);
  json.end_object();
}

void write_limit(JsonWriter& json, const insight::TopLimit& limit, const Rule* rule,
                 const std::vector<RecentDenial>& denials) {
  json.begin_object()
      .member("rule", limit.rule)
      .member("limit", limit.limit)
      .member("total", limit.total);
  if (rule != nullptr && rule->mode == RuleMode::kShadow) json.member("shadow", true);
  json.key("keys").begin_array();
  for (const insight::TopKey& key : limit.keys) {
    json.begin_object().key("key").visible_value(key.text);
    json.member("count", key.count).member("error", key.error);
    if (key.is_cut) json.member("cut", true);
    if (rules::find_invalid_utf8(key.text) != key.text.npos) json.member("not_utf8", true);
    if (!key.is_cut) write_latest(json, limit, key.text, denials);
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

void show_top(const Call& call) {
  const insight::TopKeys* const keys = call.admin.top_keys;
  if (keys == nullptr || !keys->is_on()) {
    return answer(call, 404,
                  "this server does not count keys; expected top_keys over 0 in "
                  "its configuration, and log.keys plain or hash");
  }
  const RuleSet rules = call.admin.rules.current();
  const auto read = read_query(call, rules);
  if (!read) return;
  const TopKeysQuery& query = *read;
  const auto covered = std::chrono::floor<std::chrono::seconds>(keys->covered(query.over));
  JsonWriter json;
  json.begin_object()
      .member("by", name_of(query.by))
      .member("over", name_of(query.over))
      .member("seconds", static_cast<std::uint64_t>(covered.count()))
      .member("hashed", keys->is_hashed())
      .key("limits")
      .begin_array();
  const auto denials =
      call.admin.denials != nullptr ? call.admin.denials->recent() : std::vector<RecentDenial>();
  for (const insight::TopLimit& limit : keys->top(query)) {
    write_limit(json, limit, rules.find(limit.rule), denials);
  }
  answer(call.response, 200, json.end_array().end_object());
}

namespace {

Decision apply_to_store(const Call& call, Verb verb, const RuleCounter& counter) {
  return call.admin.limiter.store().apply_one(verb, counter.charge(0), {});
}

// Writes until when the key is blocked, or when the next unit passes if none does now; and what
// replaces the numbers of the limit. `remaining` is known; only what can deny is asked again.
void write_exceptions(const Call& call, const RuleCounter& counter, std::uint64_t remaining,
                      JsonWriter& json) {
  const auto given =
      call.overrides() != nullptr ? call.overrides()->find(counter.key) : std::optional<Override>();
  const bool is_limited = !given || given->kind != Override::Kind::kUnlimited;
  const bool may_deny = remaining == 0 || counter.limit->block || given;
  const Decision next =
      may_deny ? call.admin.limiter.store().apply_one(Verb::kPeek, counter.block_charge(), {})
               : Decision{};
  const std::uint64_t wait = milliseconds(next.retry_after.value_or(Duration{0}));
  if (next.reason == Reason::kBlocked) {
    json.member("blocked_for_ms", wait);
  } else if (is_limited && next.retry_after && counter.numbers.capacity() > 0) {
    json.member("retry_after_ms", wait);
  }
  if (!given) return;
  json.key("override").begin_object();
  write_override(json, *given);
  const bool is_plan = given->kind == Override::Kind::kPlan;
  if (is_plan && given->plan != counter.plan) json.member("effective", false);
  json.end_object();
}

// Writes how many requests of the key this server denied lately, if it is among the keys that are
// counted.
void write_denied(const Call& call, const Rule& rule, const RuleCounter& counter,
                  JsonWriter& json) {
  const insight::TopKeys* const keys = call.admin.top_keys;
  if (keys == nullptr || !keys->is_on() || keys->is_hashed()) return;
  std::array<std::uint64_t, insight::kSpans> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (const insight::TopLimit& limit : keys->top({.over = static_cast<insight::Span>(i),
                                                     .rule = rule.name,
                                                     .limit = counter.limit->name,
                                                     .most = insight::KeyFrame::kMostKeys})) {
      for (const insight::TopKey& key : limit.keys) {
        if (key.text == counter.label) counts[i] = key.count;
      }
    }
  }
  if (counts.back() == 0) return;
  json.key("denied").begin_object();
  for (std::size_t i = 0; i < counts.size(); ++i) json.member(insight::kSpanNames[i], counts[i]);
  json.end_object();
}

// Answers with every counter, after `ask` has read or reset it.
template <typename Ask>
void answer_counters(const Call& call, const Selection& chosen, const Ask& ask) {
  answer_each(call, chosen, [&](JsonWriter& json, const RuleCounter& counter) {
    const Decision decision = ask(counter);
    if (!decision.allowed()) {
      answer_failed(call, counter, decision, false, &chosen.rule());
      return false;
    }
    json.member("algorithm", to_string(counter.limit->limit.algorithm()))
        .member("numbers", core::format_limit(counter.numbers))
        .member("limit", std::uint64_t{decision.capacity})
        .member("remaining", std::uint64_t{decision.remaining});
    if (!counter.plan.empty()) json.member("plan", counter.plan);
    if (holds_amounts(counter.numbers.algorithm())) {
      json.member("spent", decision.spent).member("held", decision.held);
    }
    if (is_ever_full(counter.numbers, decision)) {
      json.member("reset_after_ms", milliseconds(decision.reset_after));
    }
    write_exceptions(call, counter, decision.remaining, json);
    write_denied(call, chosen.rule(), counter, json);
    return true;
  });
}

}  // namespace

void show_keys(const Call& call) {
  const auto chosen = Selection::of(call);
  if (!chosen) return;
  answer_counters(call, *chosen, [&](const RuleCounter& counter) {
    return apply_to_store(call, Verb::kPeek, counter);
  });
}

void reset_keys(const Call& call) {
  const auto chosen = Selection::of(call);
  if (!chosen || !chosen->may_change(call, "reset")) return;
  answer_counters(call, *chosen, [&](const RuleCounter& counter) {
    const Decision decision = apply_to_store(call, Verb::kReset, counter);
    if (decision.allowed()) call.done("counter reset: " + counter.key);
    return decision;
  });
}

}  // namespace sluice::server::pages
