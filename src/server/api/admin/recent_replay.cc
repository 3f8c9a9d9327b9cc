// What the recent requests would have met with new rules, before these become active.
#include <algorithm>
#include <map>
#include <set>
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

struct Denials {
  std::uint64_t active = 0, next = 0;
  std::set<std::string, std::less<>> keys;  // that the new rules deny
  bool shadow = false;
};

using Names = std::pair<std::string, std::string>;  // of rule and limit; without a limit: ""

struct Compared {
  std::uint64_t active = 0, next = 0;  // requests that were denied
  std::map<Names, Denials> by;
};

// Decides the requests at their own instants by counters that begin empty.
class Replayed {
 public:
  Replayed(const RuleSet& rules, const Overrides* overrides)
      : rules_(rules), decider_(limiter_, {.overrides = overrides}) {}

  void decide(const RecentRequest& request, Compared& to, bool is_next) {
    costs_.clear();
    for (const auto& [limit, units] : request.costs) costs_.push_back({limit, units});
    RequestCosts costs(request.units, costs_);
    costs.only_if_wanted = request.only_if_wanted;
    const RuleAnswer& answer = decider_.decide(rules_, request.attributes, costs, request.at);
    count(answer, to, is_next);
    // When a request has ended is not known, so a permit is held by none.
    if (!answer.permit.empty()) {
      static_cast<void>(decider_.release(std::string(answer.permit), request.at));
    }
  }

 private:
  static void count(const RuleAnswer& answer, Compared& to, bool is_next) {
    const bool denied = !answer.decision.allowed();
    (is_next ? to.next : to.active) += denied ? 1 : 0;
    bool by_limit = false;
    for (const LimitAnswer& one : answer.limits) {
      if (one.decision.allowed()) continue;
      const bool shadow = one.rule->mode == RuleMode::kShadow;
      by_limit |= !shadow;
      Denials& of = to.by[{one.rule->name, one.limit->name}];
      ++(is_next ? of.next : of.active);
      if (!is_next) continue;
      of.shadow = shadow;
      if (!of.keys.contains(one.label)) of.keys.emplace(one.label);
    }
    if (!denied || by_limit) return;
    Denials& of = to.by[{answer.rule != nullptr ? answer.rule->name : "", ""}];
    ++(is_next ? of.next : of.active);
  }

  const RuleSet& rules_;
  MemoryStore store_{{.max_keys = kMostCounters}};
  Limiter limiter_{store_};
  RuleDecider decider_;
  std::vector<LimitCost> costs_;
};

// The attributes that new rules read, but that recent requests were not kept with.
std::vector<std::string> find_unknown(const RuleSet& active, const RuleSet& next) {
  std::set<std::string> known = {"method", "path", "host", "ip"};
  const auto& names = rules::Access::impl(active).attributes.names();
  known.insert(names.begin(), names.end());
  std::vector<std::string> out;
  for (const std::string& name : rules::Access::impl(next).attributes.names()) {
    if (!known.contains(name)) out.push_back(name);
  }
  return out;
}

void write_limits(JsonWriter& json, const Compared& compared) {
  std::vector<const std::pair<const Names, Denials>*> all;
  for (const auto& one : compared.by) all.push_back(&one);
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
    Replayed before(active, call.overrides()), after(next, call.overrides());
    Compared compared;
    for (const RecentRequest& request : sample.requests) {
      before.decide(request, compared, false);
      after.decide(request, compared, true);
    }
    json.member("share", std::uint64_t{sample.share})
        .member("active", compared.active)
        .member("next", compared.next);
    write_limits(json, compared);
    json.key("unknown").begin_array();
    for (const std::string& name : find_unknown(active, next)) json.value(name);
    json.end_array();
  }
  json.end_object();
}

}  // namespace sluice::server::pages
