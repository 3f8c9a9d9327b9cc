// What the recent requests would have met with new rules, before these become active.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rules/rule_set.h"
#include "server/api/admin/pages.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"

namespace sluice::server::pages {
namespace {

constexpr std::size_t kMostCounters = std::size_t{1} << 16;
constexpr std::size_t kMostLimits = 100;  // in the answer

// How many requests the active and the new rules deny.
struct Denials {
  std::uint64_t active = 0, next = 0;
  std::set<std::string, std::less<>> keys;  // that the new rules deny
  bool shadow = false;
};

using Names = std::pair<std::string, std::string>;  // of rule and limit; without a limit: ""

void count(const RuleAnswer& answer, bool is_next, Denials& all, std::map<Names, Denials>& by) {
  const auto add = [is_next](Denials& to) -> Denials& {
    ++(is_next ? to.next : to.active);
    return to;
  };
  const bool denied = !answer.decision.allowed();
  if (denied) add(all);
  bool by_limit = false;
  for (const LimitAnswer& one : answer.limits) {
    if (one.decision.allowed()) continue;
    const bool shadow = one.rule->mode == RuleMode::kShadow;
    by_limit |= !shadow;
    Denials& of = add(by[{one.rule->name, one.limit->name}]);
    if (!is_next) continue;
    of.shadow = shadow;
    if (!of.keys.contains(one.label)) of.keys.emplace(one.label);
  }
  if (denied && !by_limit) add(by[{answer.rule != nullptr ? answer.rule->name : "", ""}]);
}

// Decides the requests at their own instants by counters that begin empty.
void decide_all(std::span<const RecentRequest> requests, const RuleSet& rules,
                const Overrides* overrides, bool is_next, Denials& all,
                std::map<Names, Denials>& by) {
  MemoryStore store({.max_keys = kMostCounters});
  Limiter limiter(store);
  RuleDecider decider(limiter, {.overrides = overrides});
  std::vector<LimitCost> limits;
  for (const RecentRequest& request : requests) {
    limits.clear();
    for (const auto& [limit, units] : request.costs) limits.push_back({limit, units});
    RequestCosts costs(request.units, limits);
    costs.only_if_wanted = request.only_if_wanted;
    const RuleAnswer& answer = decider.decide(rules, request.attributes, costs, request.at);
    count(answer, is_next, all, by);
    // When a request has ended is not known, so a permit is held by none.
    if (!answer.permit.empty()) {
      static_cast<void>(decider.release(std::string(answer.permit), request.at));
    }
  }
}

// The attributes that new rules read, but that recent requests were not kept with.
std::vector<std::string> find_unknown(const RuleSet& active, const RuleSet& next) {
  std::set<std::string> known = {"method", "path", "host", "ip"};
  const auto& names = active.impl().attributes.names();
  known.insert(names.begin(), names.end());
  std::vector<std::string> out;
  for (const std::string& name : next.impl().attributes.names()) {
    if (!known.contains(name)) out.push_back(name);
  }
  return out;
}

void write_limits(JsonWriter& json, const std::map<Names, Denials>& by) {
  std::vector<const std::pair<const Names, Denials>*> all;
  for (const auto& one : by) all.push_back(&one);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto* a, const auto* b) { return a->second.next > b->second.next; });
  json.key("limits").begin_array();
  for (std::size_t i = 0; i < std::min(all.size(), kMostLimits); ++i) {
    const auto& [names, of] = *all[i];
    json.begin_object()
        .member("rule", names.first)
        .member("limit", names.second)
        .member("shadow", of.shadow)
        .member("active", of.active)
        .member("next", of.next)
        .member("keys", std::uint64_t{of.keys.size()})
        .end_object();
  }
  json.end_array();
}

}  // namespace

void write_replay(JsonWriter& json, const Call& call, const RuleSet& active, const RuleSet& next) {
  if (call.admin.recent == nullptr) return;
  const RecentRequests::Sample sample = call.admin.recent->read();
  json.key("replayed").begin_object().member("requests", std::uint64_t{sample.requests.size()});
  if (!sample.requests.empty()) {
    json.member("since", sample.requests.front().at).member("until", sample.requests.back().at);
    Denials all;
    std::map<Names, Denials> by;
    decide_all(sample.requests, active, call.overrides(), false, all, by);
    decide_all(sample.requests, next, call.overrides(), true, all, by);
    json.member("share", std::uint64_t{sample.share})
        .member("active", all.active)
        .member("next", all.next);
    write_limits(json, by);
    json.array("unknown", find_unknown(active, next));
  }
  json.end_object();
}

}  // namespace sluice::server::pages
