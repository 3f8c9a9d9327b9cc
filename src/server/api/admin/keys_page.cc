#include <string>

#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"

namespace sluice::server::pages {
namespace {

void write_counter(JsonWriter& json, const RuleCounter& counter, const Decision& decision) {
  json.member("key", counter.label).member("counter", counter.key);
  if (!counter.tag.empty()) json.member("tag", counter.tag);
  json.member("algorithm", to_string(counter.limit->limit.algorithm()))
      .member("limit", std::uint64_t{decision.capacity})
      .member("remaining", std::uint64_t{decision.remaining})
      .member("reset_after_ms", milliseconds(decision.reset_after));
}

Decision apply_to_store(const Call& call, Verb verb, const RuleCounter& counter) {
  return call.parts.limiter.store().apply_one(verb, counter.charge(0), {});
}

void write_block(const Call& call, const RuleCounter& counter, JsonWriter& json) {
  if (!counter.limit->block) return;
  const Decision decision =
      call.parts.limiter.store().apply_one(Verb::kPeek, counter.charge(1), {});
  if (decision.reason != Reason::kBlocked) return;
  json.member("blocked_for_ms", milliseconds(decision.retry_after.value_or(Duration{0})));
}

// Answers with every counter, after `ask` has read or reset it.
template <typename Ask>
void answer_counters(const Call& call, const Selection& chosen, const Ask& ask) {
  JsonWriter json;
  json.begin_object().member("rule", chosen.rule().name).key("limits").begin_array();
  for (const RuleCounter& counter : chosen.counters()) {
    json.begin_object().member("name", counter.limit->name);
    if (counter.key.empty()) {
      write_missing(json, counter);
    } else {
      const Decision decision = ask(counter);
      if (!decision.allowed()) return answer_failed(call, counter, decision);
      write_counter(json, counter, decision);
      write_block(call, counter, json);
    }
    json.end_object();
  }
  answer(call.response, 200, json.end_array().end_object());
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
