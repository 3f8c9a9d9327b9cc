#include "server/api/admin/rule_selection.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "base/quoted.h"
#include "base/request_target.h"
#include "server/protocol/http/fields.h"

namespace sluice::server::pages {

using base::in_quotes;

std::optional<Selection> Selection::of(const Call& call) {
  Buffers buffers;
  Selection chosen{call.admin.rules.current()};
  const auto name = call.parameter("rule", buffers);
  if (!name) {
    answer(call.response, {400,
                           "the rule is missing; expected ?rule=NAME and the attributes of a "
                           "request, such as &ip=192.0.2.1"});
    return std::nullopt;
  }
  chosen.rule_ = chosen.rules_.find(*name);
  if (chosen.rule_ == nullptr) {
    const std::string detail = "there is no rule " + in_quotes(*name) + "; expected " +
                               one_of(chosen.rules_.rules(), *name);
    answer(call.response, {404, detail});
    return std::nullopt;
  }
  if (const auto limit = call.parameter("limit", buffers)) chosen.limit_ = *limit;
  if (!chosen.find_counters(call)) return std::nullopt;
  return chosen;
}

bool Selection::find_counters(const Call& call) {
  // The name of a limit without one is RULE/INDEX; its index is enough.
  std::string name = limit_.value_or("");
  const auto has = [&](const RuleLimit& limit) { return limit.name == name; };
  if (std::none_of(rule_->limits.begin(), rule_->limits.end(), has))
    name = rule_->name + "/" + name;
  for (RuleCounter& counter :
       counters_of(rules_, *rule_, QueryAttributes(call.query), call.overrides())) {
    if (!limit_ || is_all() || counter.limit->name == name) {
      counters_.push_back(std::move(counter));
    }
  }
  if (is_all()) drop_shared();
  if (!counters_.empty() || !limit_ || is_all()) return true;
  const std::string detail = "rule " + in_quotes(rule_->name) + " has no limit " +
                             in_quotes(*limit_) + "; expected " + one_of(rule_->limits, *limit_);
  answer(call.response, {404, detail});
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
    const std::string detail = "nothing to " + std::string(what) + ": rule " +
                               in_quotes(rule_->name) +
                               " has no limits; expected a rule with limits";
    answer(call.response, {400, detail});
    return false;
  }
  if (!is_one() && !is_all()) {
    const std::string detail = "rule " + in_quotes(rule_->name) +
                               " has several limits; expected limit=NAME (" + rule_->name +
                               "/NAME on the command line), one of: " + names_of(rule_->limits) +
                               "; or limit=* for all that read these attributes";
    answer(call.response, {400, detail});
    return false;
  }
  for (const RuleCounter& counter : counters_) {
    if (!counter.key.empty()) return true;
  }
  const RuleCounter& first = counters_.front();
  const std::string detail = "nothing to " + std::string(what) + ": the key of the limit " +
                             in_quotes(first.limit->name) + " lacks " + first.missing_names() +
                             "; expected these attributes too";
  answer(call.response, {400, detail});
  return false;
}

std::optional<std::uint64_t> number_in(const Call& call, std::string_view name,
                                       std::uint64_t otherwise, std::uint64_t least,
                                       std::uint64_t most) {
  Buffers buffers;
  const auto text = call.parameter(name, buffers);
  if (!text) return otherwise;
  std::uint64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, number);
  const bool is_number = read.ec == std::errc() && read.ptr == end;
  if (is_number && number >= least && number <= most) return number;
  const std::string detail = in_quotes(name) + " is " + in_quotes(*text) +
                             "; expected a whole number from " + std::to_string(least) + " to " +
                             std::to_string(most);
  answer(call.response, {400, detail});
  return std::nullopt;
}

std::optional<std::uint64_t> count_in(const Call& call) {
  return number_in(call, "count", 1000, 1, 10'000);
}

std::uint64_t milliseconds(Duration wait) noexcept {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(wait).count());
}

bool write_key(JsonWriter& json, const RuleCounter& counter) {
  if (!counter.key.empty()) {
    json.member("key", counter.label).member("counter", counter.key);
    if (!counter.tag.empty()) json.member("tag", counter.tag);
    return true;
  }
  json.key("missing").begin_array();
  for (const std::string& names : counter.missing) json.value(names);
  json.end_array();
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
        .append(rule->mode == RuleMode::kShadow ? "" : name_of(rule->on_store_error));
  }
  answer(call.response, {503, detail});
}

}  // namespace sluice::server::pages
