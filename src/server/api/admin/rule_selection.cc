#include "server/api/admin/rule_selection.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/quoted.h"
#include "base/request_target.h"
#include "rules/counter_key.h"
#include "rules/rule_changes.h"
#include "rules/rule_set.h"
#include "rules/schema.h"
#include "server/decide/named_attributes.h"
#include "server/protocol/http/fields.h"

namespace sluice::server::pages {

using base::in_quotes;

std::optional<std::string_view> find_attribute(std::string_view query, std::string_view name,
                                               Buffers& buffers) {
  const auto value = base::find_query(query, std::string(kAttributePrefix).append(name), buffers);
  constexpr std::array<std::string_view, 4> kOwn = {"rule", "limit", "for", "until"};
  if (value || std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end()) return value;
  return base::find_query(query, name, buffers);
}

std::optional<Selection> Selection::of(const Call& call) {
  Selection chosen{call.admin.rules.current()};
  const auto name = call.parameter("rule");
  if (!name) {
    return refuse(call, 400,
                  "the rule is missing; expected ?rule=NAME and the attributes of a "
                  "request, such as &ip=192.0.2.1");
  }
  chosen.rule_ = find_rule(call, chosen.rules_, *name);
  if (chosen.rule_ == nullptr) return std::nullopt;
  chosen.limit_ = call.parameter("limit");
  if (!chosen.find_counters(call)) return std::nullopt;
  return chosen;
}

bool Selection::find_counters(const Call& call) {
  // The name of a limit without one is RULE/INDEX; its index is enough.
  std::string name = limit_.value_or("");
  const auto has = [&](const RuleLimit& limit) { return limit.name == name; };
  if (std::none_of(rule_->limits.begin(), rule_->limits.end(), has))
    name = rule_->name + "/" + name;
  Buffers buffers;
  const AttributesBy attributes(
      [&](std::string_view attribute) { return find_attribute(call.query, attribute, buffers); });
  for (RuleCounter& counter : counters_of(rules_, *rule_, attributes, call.overrides())) {
    if (rules_.impl().compiled_of(*rule_, *counter.limit).removed) continue;
    if (!limit_ || is_all() || counter.limit->name == name) {
      counters_.push_back(std::move(counter));
    }
  }
  if (is_all()) drop_shared();
  if (!counters_.empty() || !limit_ || is_all()) return true;
  answer_no_limit(call, rules::without_removed(rules_, *rule_), *limit_);
  return false;
}

// Who names one client and all limits does not mean the counters of all clients.
void Selection::drop_shared() {
  const auto is_shared = [](const RuleCounter& counter) {
    return counter.missing.empty() && counter.limit->key.find('{') == std::string::npos;
  };
  const auto is_named = [&](const RuleCounter& counter) {
    return !counter.key.empty() && !is_shared(counter);
  };
  if (std::any_of(counters_.begin(), counters_.end(), is_named)) {
    std::erase_if(counters_, is_shared);
  }
}

bool Selection::may_change(const Call& call, std::string_view what) const {
  if (rule_->limits.empty()) {
    answer(call, 400,
           "nothing to " + std::string(what) + ": rule " + in_quotes(rule_->name) +
               " has no limits; expected a rule with limits");
    return false;
  }
  if (!is_one() && !is_all()) {
    answer(call, 400,
           "rule " + in_quotes(rule_->name) + " has several limits; expected limit=NAME (" +
               rule_->name + "/NAME on the command line), one of: " +
               names_of(rules::without_removed(rules_, *rule_).limits) +
               "; or limit=* for all that read these attributes");
    return false;
  }
  for (const RuleCounter& counter : counters_) {
    if (!counter.key.empty()) return true;
  }
  const RuleCounter& first = counters_.front();
  answer(call, 400,
         "nothing to " + std::string(what) + ": the key of the limit " +
             in_quotes(first.limit->name) + " lacks " + first.missing_names() +
             "; expected these attributes too");
  return false;
}

const Rule* find_rule(const Call& call, const RuleSet& rules, std::string_view name) {
  const Rule* const rule = rules.find(name);
  if (rule == nullptr) {
    refuse(call, 404,
           "there is no rule " + in_quotes(name) + "; expected " +
               (rules.rules().empty() ? "none, there are no rules" : one_of(rules.rules(), name)));
  }
  return rule;
}

void answer_no_limit(const Call& call, const Rule& rule, std::string_view name) {
  refuse(call, 404,
         "rule " + in_quotes(rule.name) + " has no limit " + in_quotes(name) + "; expected " +
             one_of(rule.limits, name));
}

std::uint64_t milliseconds(Duration wait) noexcept {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(wait).count());
}

bool write_key(JsonWriter& json, const RuleCounter& counter) {
  if (!counter.key.empty()) {
    json.member("key", counter.label).member("counter", rules::utf8_counter_key(counter.key));
    if (!counter.tag.empty()) json.member("tag", counter.tag);
    return true;
  }
  json.array("missing", counter.missing);
  return false;
}

void answer_failed(const Call& call, const RuleCounter& counter, const Decision& decision,
                   bool is_changed, const Rule* rule) {
  const bool only_reads = call.route.method == "GET";
  const StoreStatus store = call.admin.status ? call.admin.status().store : StoreStatus();
  const bool is_away =
      decision.reason == Reason::kStoreError && store.failing_since && (only_reads || !is_changed);
  const std::string_view effect = only_reads   ? ""
                                  : is_changed ? ", which is changed"
                                  : decision.reason == Reason::kStoreTimeout
                                      ? ", which may have been changed (repeat it)"
                                      : ", which is not changed";
  const std::string_view what = decision.reason == Reason::kStoreFull
                                    ? "the store is full, and has no room for the limit "
                                    : "the store could not answer for the limit ";
  const std::string limit = in_quotes(counter.limit->name);
  std::string detail = std::string(what) + limit + std::string(effect) + ": " +
                       std::string(to_string(decision.reason));
  if (is_away) {
    detail = "Redis cannot be reached" +
             std::string(only_reads ? ", so nothing is known" : ", and nothing is changed") +
             " of the limit " + limit + ": " + store.why_failing;
  }
  if (only_reads && rule != nullptr && decision.reason != Reason::kStoreFull) {
    detail.append("; meanwhile requests of the rule are decided by ")
        .append(rule->mode == RuleMode::kShadow ? "mode: shadow" : "on_store_error: ")
        .append(rule->mode == RuleMode::kShadow ? ""
                                                : rules::schema::word_of(rule->on_store_error));
  }
  answer(call, 503, detail);
}

}  // namespace sluice::server::pages
