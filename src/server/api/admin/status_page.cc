#include "server/api/admin/status_page.h"

#include <algorithm>

#include "base/civil_time.h"
#include "base/request_target.h"
#include "core/period.h"
#include "rules/counter_key.h"
#include "rules/schema.h"
#include "server/api/admin/live_page.h"
#include "server/api/admin/pages.h"

namespace sluice::server::pages {

void write_server(JsonWriter& json, const ServerStatus& status) {
  json.member("version", status.version)
      .member("uptime_s", static_cast<std::uint64_t>(status.uptime.count()))
      .member("ready", status.ready)
      .member("draining", status.draining)
      .member("threads", std::uint64_t{status.threads});
  if (status.proxies > 0) json.member("proxies", status.proxies);
  json.key("listeners").begin_array();
  for (const ServerStatus::Listener& listener : status.listeners) {
    json.begin_object()
        .member("name", listener.name)
        .member("address", listener.address)
        .member("connections", std::uint64_t{listener.connections})
        .member("max", std::uint64_t{listener.most})
        .end_object();
  }
  json.end_array().key("store").begin_object().member("kind", status.store.kind);
  if (!status.store.address.empty()) json.member("at", status.store.address);
  if (!status.store.warning.empty()) json.member("warning", status.store.warning);
  for (const auto& [name, number] : status.store.numbers) json.member(name, number);
  json.end_object();
}

namespace {

// Writes what each of the first `most` rules with limits does without the store. A rule in shadow
// mode lets everything pass, whatever its policy is.
void write_meanwhile(JsonWriter& json, const RuleSet& rules, std::size_t most) {
  json.key("rules").begin_array();
  for (const Rule& rule : rules.rules().first(std::min(most, rules.rules().size()))) {
    if (rule.action != RuleAction::kLimit) continue;
    const bool is_shadow = rule.mode == RuleMode::kShadow;
    json.begin_object()
        .member("name", rule.name)
        .member("does",
                rules::schema::word_of(is_shadow ? FailurePolicy::kAllow : rule.on_store_error));
    json.end_object();
  }
  json.end_array();
}

// Begins an object about what is wrong since an instant.
JsonWriter& begin_trouble(JsonWriter& json, std::string_view name, Instant since,
                          std::string_view why) {
  return json.key(name).begin_object().member("since", base::to_rfc3339(since)).member("why", why);
}

// Writes which rules and overrides Redis has lost.
void write_lost(JsonWriter& json, const ServerStatus& server, const RulesStatus& status) {
  if (status.lost_since) {
    begin_trouble(json, "rules_lost", *status.lost_since, status.why_lost);
    if (status.from_cache) json.member("from_cache", true);
    json.end_object();
  }
  if (status.older_since) {
    begin_trouble(json, "rules_older", *status.older_since, status.why_older).end_object();
  }
  if (!server.knows_overrides) json.member("overrides_unknown", true);
  if (server.overrides_lost > 0) {
    json.key("overrides_lost")
        .begin_object()
        .member("since", base::to_rfc3339(server.overrides_lost_at))
        .member("count", server.overrides_lost)
        .key("counters")
        .begin_array();
    for (const std::string& counter : server.overrides_lost_first) {
      json.value(rules::utf8_counter_key(counter));
    }
    json.end_array()
        .member(
            "why",
            "Redis came back without them; to set them again: sluice key export --lost | sluice "
            "key import -")
        .end_object();
  }
}

}  // namespace

void write_outage(JsonWriter& json, const ServerStatus& server, const RulesStatus& status,
                  const RuleSet& rules, std::size_t most, const History* history) {
  const auto write_failed = [&](Instant from, Instant to) {
    if (history != nullptr) json.member("decided_without", history->failed(from, to));
  };
  if (const StoreStatus& store = server.store; store.failing_since) {
    begin_trouble(json, "outage", *store.failing_since, store.why_failing);
    write_failed(*store.failing_since, Instant::max());
    write_meanwhile(json, rules, most);
    json.end_object();
  }
  if (const auto& past = server.store.last_outage) {
    const auto lasted = std::chrono::ceil<std::chrono::seconds>(past->to - past->from);
    json.key("last_outage").begin_object().member("from", base::to_rfc3339(past->from));
    json.member("to", base::to_rfc3339(past->to))
        .member("seconds", static_cast<std::uint64_t>(lasted.count()))
        .member("why", past->why);
    write_failed(past->from, past->to);
    json.end_object();
  }
  if (server.store.full_since) {
    begin_trouble(json, "full", *server.store.full_since,
                  server.store.address +
                      " has refused new counters within the last minute: its memory is full");
    write_meanwhile(json, rules, most);
    json.end_object();
  }
  if (server.store.slow_since) {
    begin_trouble(json, "slow", *server.store.slow_since, server.store.why_slow);
    write_meanwhile(json, rules, most);
    json.end_object();
  }
  write_lost(json, server, status);
  if (server.stranger) {
    json.key("gateway_not_trusted")
        .begin_object()
        .member("since", base::to_rfc3339(server.stranger->since))
        .member("peer", server.stranger->peer)
        .member("why", server.stranger->peer +
                           " says who its clients are; add it to trusted_proxies, or all of them "
                           "have its address")
        .end_object();
  }
  write_temporary(json, status.temporary);
}

void write_temporary(JsonWriter& json, const std::vector<TemporaryChange>& changes) {
  if (changes.empty()) return;
  json.key("temporary").begin_array();
  for (const TemporaryChange& change : changes) {
    json.begin_object()
        .member("rule", change.place())
        .member("key", change.name())
        .member("value", change.value);
    if (change.until) json.member("until", base::to_rfc3339(*change.until));
    if (!change.has_effect) json.member("effective", false);
    json.end_object();
  }
  json.end_array();
}

namespace {

void write_rules(JsonWriter& json, const RulesStatus& rules) {
  json.key("rules")
      .begin_object()
      .member("version", rules.version)
      .array("sources", rules.sources)
      .member("loaded_at", rules.loaded_at)
      .member("by", rules.by);
  if (!rules.source.empty()) json.member("source", rules.source);
  json.member("rules", std::uint64_t{rules.rules})
      .member("limits", std::uint64_t{rules.limits})
      .member("warnings", std::uint64_t{rules.warnings});
  if (!rules.first_warnings.empty()) write_errors(json.key("first_warnings"), rules.first_warnings);
  json.member("reloads", rules.reloads).member("failures", rules.failures);
  if (rules.failures > 0) json.member("last_failure_at", rules.last_failure_at);
  write_errors(json.key("last_errors"), rules.last_errors);
  if (!rules.differences.empty()) {
    constexpr std::size_t kMost = 100;
    json.member("differ_by", rules.differ_by).key("differences").begin_array();
    for (std::size_t i = 0; i < std::min(kMost, rules.differences.size()); ++i) {
      rules::write_json(rules.differences[i], json);
    }
    json.end_array();
  }
  json.end_object();
}

// "120 per 1m, burst 60", or of a limit of plans "free 2 per 1h; pro 5 per 1h".
std::string numbers_of(const Rule& rule, const RuleLimit& limit) {
  if (limit.by_plan.empty()) return core::format_limit(limit.limit);
  std::string text;
  for (std::size_t i = 0; i < limit.by_plan.size(); ++i) {
    text.append(i > 0 ? "; " : "").append(rule.plans[i]).append(" ");
    text.append(core::format_limit(limit.by_plan[i]));
  }
  return text;
}

// Writes every rule, with its limits in words.
void write_limits(JsonWriter& json, const RuleSet& rules) {
  json.key("limits").begin_array();
  for (const Rule& rule : rules.rules()) {
    json.begin_object().member("rule", rule.name);
    if (rule.mode == RuleMode::kShadow) json.member("shadow", true);
    if (rule.action == RuleAction::kAllow) json.member("action", "allow");
    if (rule.action == RuleAction::kDeny) json.member("action", "deny");
    if (rule.action == RuleAction::kLimit) {
      json.member("on_store_error", rules::schema::word_of(rule.on_store_error));
    }
    json.key("limits").begin_array();
    for (const RuleLimit& limit : rule.limits) {
      json.begin_object()
          .member("name", limit.name)
          .member("key", limit.key)
          .member("algorithm", to_string(limit.limit.algorithm()))
          .member("numbers", numbers_of(rule, limit))
          .end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void write_envoy(JsonWriter& json, const EnvoyStatus& envoy) {
  json.key("envoy")
      .begin_object()
      .array("sources", envoy.sources)
      .member("domains", std::uint64_t{envoy.domains})
      .member("limits", std::uint64_t{envoy.limits})
      .member("reloads", envoy.reloads)
      .member("failures", envoy.failures);
  write_errors(json.key("last_errors"), envoy.last_errors);
  json.end_object();
}

}  // namespace

void show_status(const Call& call) {
  JsonWriter json;
  json.begin_object();
  const ServerStatus status = call.admin.status();
  write_server(json, status);
  const RulesStatus rules = call.admin.rules.status();
  const RuleSet active = call.admin.rules.current();
  write_outage(json, status, rules, active, active.rules().size(),
               call.admin.events != nullptr ? &call.admin.events->history() : nullptr);
  write_rules(json, rules);
  if (status.envoy) write_envoy(json, *status.envoy);
  if (call.overrides() != nullptr && call.overrides()->size() > 0) {
    json.member("overrides", std::uint64_t{call.overrides()->size()});
  }
  if (call.parameter("limits") == "true") write_limits(json, active);
  answer(call.response, 200, json.end_object());
}

void show_quota(const Call& call) {
  if (!call.admin.quota) {
    return answer(call, 404, "the server assigns no quotas; expected listen.grpc to be on");
  }
  call.response.text = call.admin.quota();
  call.response.text.push_back('\n');
  call.response.answer_text(200, "application/json");
}

}  // namespace sluice::server::pages
