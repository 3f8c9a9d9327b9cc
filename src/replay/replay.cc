#include "replay/replay.h"

#include <algorithm>

#include "replay/log_attributes.h"
#include "rules/request_names.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"

namespace sluice::replay {
namespace {

using SteadyClock = std::chrono::steady_clock;

MemoryStoreOptions store_options(std::size_t max_keys) {
  MemoryStoreOptions options;
  options.max_keys = max_keys;
  options.max_log_bytes = std::size_t{1} << 30;
  options.shards = 1;  // one thread decides
  return options;
}

bool counts_responses(const RuleSet& rules) {
  const auto any = [](const Rule& rule) {
    return std::any_of(rule.limits.begin(), rule.limits.end(),
                       [](const RuleLimit& limit) { return limit.counts_responses; });
  };
  return std::any_of(rules.rules().begin(), rules.rules().end(), any);
}

// Decides requests by one set of rules, with counters of its own.
class RuleReplay {
 public:
  RuleReplay(const RuleSet& rules, const ReplayOptions& options)
      : rules_(rules),
        counts_responses_(counts_responses(rules)),
        store_(store_options(options.max_keys)),
        names_(rules, options.overrides),
        requests_(limiter_, rules, {.overrides = options.overrides}),
        decider_(limiter_, {.overrides = options.overrides}) {}

  rules::RequestNames& names() { return names_; }
  std::uint64_t evictions() const { return store_.stats().evictions; }

  // Decides the request with this name, or without one. The answer is valid until the next call.
  const RuleAnswer& decide(std::string_view name, const LogAttributes& attributes,
                           const RequestCosts& costs, Instant now) {
    if (costs.units == 1 && costs.limits.empty()) return requests_.decide(name, attributes, now);
    const RuleAnswer& answer = decider_.decide(rules_, attributes, costs, now);
    const bool has_unknown = answer.decision.reason == Reason::kInvalid && answer.matched.empty();
    return has_unknown ? decide_without_unknown(attributes, costs, now) : answer;
  }

  // Reports the response of a request that was allowed.
  void report_response(const LogAttributes& attributes, Instant now) {
    if (counts_responses_) decider_.report(rules_, attributes, attributes, 1, now);
  }

 private:
  // A server denies a request with a cost for a limit that no matching rule has. A field of a log
  // gives each line this cost, whatever rules match, so it is left out for the others.
  const RuleAnswer& decide_without_unknown(const LogAttributes& attributes, RequestCosts costs,
                                           Instant now) {
    const RuleAnswer& looked = decider_.decide(rules_, attributes, 1, now, Verb::kPeek);
    known_costs_.clear();
    for (const LimitCost& cost : costs.limits) {
      if (is_limit_of(looked, cost.limit)) known_costs_.push_back(cost);
    }
    costs.limits = known_costs_;
    return decider_.decide(rules_, attributes, costs, now);
  }

  static bool is_limit_of(const RuleAnswer& answer, std::string_view name) {
    return std::any_of(answer.matched.begin(), answer.matched.end(), [&](const auto& matched) {
      return std::any_of(matched.rule->limits.begin(), matched.rule->limits.end(),
                         [&](const RuleLimit& limit) { return limit.name == name; });
    });
  }

  const RuleSet& rules_;
  const bool counts_responses_;
  MemoryStore store_;
  Limiter limiter_{store_};
  rules::RequestNames names_;
  rules::RememberedRequests requests_;
  RuleDecider decider_;
  std::vector<LimitCost> known_costs_;
};

class Replay {
 public:
  Replay(const RuleSet& rules, const ReplayOptions& options)
      : options_(options), first_rules_(rules, options), report_(rules, options) {
    if (options.against != nullptr) second_rules_.emplace(*options.against, options);
  }

  ReplayReport run() {
    const auto start = SteadyClock::now();
    LogReaderOptions reading = options_.reading;
    reading.names = &first_rules_.names();
    if (second_rules_) reading.second_names = &second_rules_->names();
    LogReader reader(options_.logs, reading);
    while (LogBatch* batch = reader.next()) {
      decide(*batch);
      account_.add(*batch);
      reader.release(batch);
    }
    report_.evictions = first_rules_.evictions();
    if (second_rules_) report_.evictions += second_rules_->evictions();
    const auto elapsed = SteadyClock::now() - start;
    report_.elapsed = std::chrono::round<std::chrono::milliseconds>(elapsed);
    return std::move(report_);
  }

 private:
  void decide(const LogBatch& batch) {
    for (std::size_t i = 0; i < batch.lines.size(); ++i) {
      const LogLine& line = batch.lines[i];
      clock_ = std::max(clock_, line.at);
      first_ = std::min(first_, line.at);
      report_.late += line.at < clock_ ? 1 : 0;
      attributes_.show(line, batch.fields(line));
      decide(batch, i);
    }
    if (report_.tally.requests == 0) return;
    report_.first = first_;
    report_.last = clock_;
  }

  void decide(const LogBatch& batch, std::size_t line) {
    const RequestCosts costs = batch.costs(batch.lines[line]);
    const RuleAnswer& answer = first_rules_.decide(batch.name(line), attributes_, costs, clock_);
    const bool allowed = answer.decision.allowed();
    report_.tally.count(answer, clock_);
    if (second_rules_) compare(answer, batch.second_name(line), costs);
    if (allowed) first_rules_.report_response(attributes_, clock_);
  }

  void compare(const RuleAnswer& first, std::string_view name, const RequestCosts& costs) {
    ReplayComparison& comparison = *report_.comparison;
    const RuleAnswer& second = second_rules_->decide(name, attributes_, costs, clock_);
    comparison.tally.count(second, clock_);
    const bool allowed = second.decision.allowed();
    if (first.decision.allowed() && !allowed) comparison.only_against.count(second, clock_);
    if (!first.decision.allowed() && allowed) comparison.only_rules.count(first, clock_);
    if (!first.decision.allowed() && !allowed) ++comparison.denied_both;
    if (allowed) second_rules_->report_response(attributes_, clock_);
  }

  const ReplayOptions& options_;
  RuleReplay first_rules_;
  std::optional<RuleReplay> second_rules_;
  LogAttributes attributes_;
  ReplayReport report_;
  LogAccount account_{options_, report_};
  Instant clock_ = kFirstInstant;
  Instant first_ = kLastInstant;
};

}  // namespace

bool ReplayReport::approximate() const noexcept {
  return evictions > 0 || tally.overflowed() || (comparison && comparison->tally.overflowed());
}

ReplayReport replay(const RuleSet& rules, const ReplayOptions& options) {
  return Replay(rules, options).run();
}

}  // namespace sluice::replay
