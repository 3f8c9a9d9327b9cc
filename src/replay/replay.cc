#define XXH_INLINE_ALL
#include "replay/replay.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/quoted.h"
#include "rules/request_names.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::seconds;

// Widths that are easy to read.
constexpr std::array<seconds, 31> kWidths = {
    1s,      2s,       5s,       10s,      15s,       20s,       30s,      1min,
    2min,    5min,     10min,    15min,    20min,     30min,     1h,       2h,
    3h,      4h,       6h,       12h,      days{1},   days{2},   days{3},  days{4},
    days{7}, days{14}, days{28}, days{56}, days{112}, days{224}, days{448}};

// Returns the next of these widths above `width` that is a multiple of `bucket`.
Duration wider_than(Duration width, Duration bucket) {
  for (const Duration wider : kWidths) {
    if (wider > width && wider % bucket == Duration{0}) return wider;
  }
  return width * 2;
}

Instant floor_to(Instant at, Duration width) {
  return at - at.time_since_epoch() % width;  // times are never before the epoch
}

std::size_t buckets_between(Instant start, Instant at, Duration width) {
  return static_cast<std::size_t>((at - start) / width);
}

}  // namespace

void TimeSeries::move_to(Instant at) {
  if (counts_.empty()) start_ = floor_to(at, width_);
  while (buckets_between(start_, at, width_) >= kMostBuckets) widen(wider_than(width_, width_));
  current_ = buckets_between(start_, at, width_);
  current_end_ = start_ + (static_cast<std::int64_t>(current_) + 1) * width_;
  counts_.resize((current_ + 1) * channels_);
}

void TimeSeries::widen(Duration width) {
  const Instant start = floor_to(start_, width);
  const std::size_t count = buckets();
  std::size_t last = 0;
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    const Instant at = start_ + static_cast<std::int64_t>(bucket) * width_;
    last = buckets_between(start, at, width);  // never beyond `bucket`: it moves within counts_
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      const std::uint64_t moved = std::exchange(counts_[bucket * channels_ + channel], 0);
      counts_[last * channels_ + channel] += moved;
    }
  }
  counts_.resize(count == 0 ? 0 : (last + 1) * channels_);
  start_ = start;
  width_ = width;
}

std::vector<std::uint64_t> TimeSeries::channel(std::size_t channel) const {
  std::vector<std::uint64_t> counts(buckets());
  for (std::size_t bucket = 0; bucket < counts.size(); ++bucket)
    counts[bucket] = at(bucket, channel);
  return counts;
}

TimeSeries TimeSeries::in_columns(std::size_t columns) const {
  TimeSeries wide = *this;
  if (buckets() <= columns) return wide;
  const Instant last = start_ + static_cast<std::int64_t>(buckets() - 1) * width_;
  const auto fits = [&](Duration width) {
    return buckets_between(floor_to(start_, width), last, width) < columns;
  };
  Duration width = width_;
  while (!fits(width)) width = wider_than(width, width_);
  wide.widen(width);
  return wide;
}

void KeyTally::count(const LimitAnswer& answer, const LogLine& line, Instant at) {
  Entry* entry = entry_of(answer.counter);
  if (entry == nullptr) return;
  if (!answer.decision.allowed()) count_denial(*entry, answer, line, at);
  const bool is_denied = entry->denied_index != kNeverDenied;
  ++(is_denied ? denied_[entry->denied_index].requests : entry->requests);
}

KeyTally::Entry* KeyTally::entry_of(std::string_view counter) {
  if (last_entry_ != nullptr && counter == last_counter_) return last_entry_;
  const std::uint64_t hash = XXH3_64bits(counter.data(), counter.size());
  auto found = keys_.find(hash);
  if (found == keys_.end()) {
    if (keys_.size() >= most_keys_) {
      overflowed_ = true;
      return nullptr;
    }
    found = keys_.emplace(hash, Entry{}).first;
  }
  last_counter_.assign(counter);
  last_entry_ = &found->second;
  return last_entry_;
}

void KeyTally::count_denial(Entry& entry, const LimitAnswer& answer, const LogLine& line,
                            Instant at) {
  if (entry.denied_index == kNeverDenied) {
    entry.denied_index = static_cast<std::uint32_t>(denied_.size());
    denied_.push_back({.label = std::string(answer.label.substr(0, kLongestLabel)),
                       .requests = entry.requests,
                       .first = at});
  }
  DeniedKey& key = denied_[entry.denied_index];
  ++key.denied;
  key.last = at;
  traits_.add(entry.denied_index, key.denied, line);
}

std::vector<DeniedKey> KeyTally::most_denied(std::size_t count) const {
  std::vector<std::uint32_t> order(denied_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [this](std::uint32_t a, std::uint32_t b) {
    if (denied_[a].denied != denied_[b].denied) return denied_[a].denied > denied_[b].denied;
    return denied_[a].label < denied_[b].label;
  });
  std::vector<DeniedKey> most;
  for (auto index = order.begin(); index != end; ++index) {
    most.push_back(denied_[*index]);
    most.back().traits = traits_.find(*index);
  }
  return most;
}

namespace {

// Returns the attributes of a cost as it is written: "{body.max_tokens|500}" has one.
std::vector<std::string> attributes_of_cost(std::string_view cost) {
  std::vector<std::string> names;
  for (std::size_t at = cost.find('{'); at != cost.npos; at = cost.find('{', at)) {
    const std::string_view part = cost.substr(at + 1, cost.find('}', at) - at - 1);
    at += part.size();
    for (const std::string_view name : base::split(part, '|')) {
      if (name.find_first_not_of("0123456789") != name.npos) names.emplace_back(name);
    }
  }
  return names;
}

// A budget that `overflow` adds has the cost of the first one.
bool may_need_cost(const RuleLimit& limit) {
  return limit.cost.empty() && !limit.counts_responses && !limit.alternative;
}

}  // namespace

Tally::Tally(const RuleSet& rule_set, std::size_t most_keys)
    : file_order_(rule_set.rules()), series_(rule_channel(rule_set.rules().size())) {
  for (const Rule& rule : rule_set.rules()) {
    RuleTally& tally = rules.emplace_back();
    tally.rule = &rule;
    if (rule.action == RuleAction::kDeny) tally.clients.emplace(most_keys);
    for (const RuleLimit& limit : rule.limits) {
      LimitTally& each =
          tally.limits.emplace_back(LimitTally{.limit = &limit, .keys = KeyTally(most_keys)});
      each.cost_from = attributes_of_cost(limit.cost);
      each.lacks_cost = each.reads_cost();
      lack_costs_ += each.lacks_cost ? 1 : 0;
      without_cost_ += may_need_cost(limit) ? 1 : 0;
      each.key_from = parts_of_key(limit.key);
      lack_keys_ += each.key_from.size();
    }
  }
  if (lack_costs_ == 0) without_cost_ = 0;
}

namespace {

// Returns the hour of the day, UTC.
std::size_t hour_of(Instant at) {
  using std::chrono::floor;
  const auto time = at - floor<std::chrono::days>(at);
  return static_cast<std::size_t>(floor<std::chrono::hours>(time).count());
}

// Whether enforced rules deny the request. An invalid one is refused, and no limit has counted it.
bool denies(const RuleAnswer& answer) {
  return !answer.decision.allowed() && answer.decision.reason != Reason::kInvalid;
}

// Whether the rule could not decide, because of a wrong cost.
bool is_invalid(const RuleAnswer& answer, const Rule* rule) {
  return std::any_of(answer.limits.begin(), answer.limits.end(), [&](const LimitAnswer& each) {
    return each.rule == rule && each.decision.reason == Reason::kInvalid;
  });
}

// Counts a request that a rule with `action: deny` denies.
void count_denial(KeyTally& clients, const LogLine& line, Instant at) {
  LimitAnswer answer;
  answer.label = line.client.empty() ? "(no address)" : line.client;
  answer.counter = answer.label;
  answer.decision.outcome = Outcome::kDenied;
  clients.count(answer, line, at);
}

}  // namespace

void Tally::count(const RuleAnswer& answer, const LogLine& line, Instant at) {
  series_.advance(at);
  series_.add(kRequests);
  ++requests;
  if (answer.matched.empty()) ++unmatched;
  const bool is_invalid_request = answer.decision.reason == Reason::kInvalid;
  if (is_invalid_request && invalid++ == 0) mistake = answer.mistake;
  units += is_invalid_request ? 0 : line.units;
  if (denies(answer)) {
    ++denied;
    denied_units += line.units;
    ++denied_by_hour[hour_of(at)];
    series_.add(kDenied);
  }
  const Reason reason = answer.decision.reason;
  if (store_failed(reason) || reason == Reason::kFallback) ++undecided;
  bool would_deny = false;
  for (const RuleAnswer::Matched& matched : answer.matched) {
    const auto index = static_cast<std::size_t>(matched.rule - file_order_.data());
    RuleTally& tally = rules[index];
    ++tally.matched;
    series_.add(rule_channel(index));
    if (!matched.denied || is_invalid(answer, matched.rule)) continue;
    ++tally.denied;
    if (tally.clients) count_denial(*tally.clients, line, at);
    series_.add(rule_channel(index) + 1);
    would_deny = would_deny || matched.rule->mode == RuleMode::kShadow;
  }
  if (would_deny && answer.decision.allowed()) {
    ++this->would_deny;
    would_deny_units += line.units;
    ++would_deny_by_hour[hour_of(at)];
    series_.add(kWouldDeny);
  }
  for (const LimitAnswer& each : answer.limits) {
    LimitTally& limit = tally_of(each);
    if (each.decision.passed_over) {
      ++limit.passed_over;
      continue;
    }
    if (each.decision.reason == Reason::kInvalid) {
      ++limit.invalid;
      continue;
    }
    const bool is_denied = !each.decision.allowed();
    ++limit.requests;
    limit.units += each.cost;
    limit.denied += is_denied ? 1 : 0;
    limit.blocked += each.decision.reason == Reason::kBlocked ? 1 : 0;
    limit.denied_units += is_denied ? each.cost : 0;
    if (!each.counter.empty()) limit.keys.count(each, line, at);
  }
}

LimitTally& Tally::tally_of(const LimitAnswer& answer) {
  RuleTally& rule = rules[static_cast<std::size_t>(answer.rule - file_order_.data())];
  return rule.limits[static_cast<std::size_t>(answer.limit - answer.rule->limits.data())];
}

namespace {

// A budget that `overflow` adds takes the cost of one before it, too.
bool is_cost_of(const RuleLimit& limit, const LimitCost& cost) {
  const RuleLimit* named = &limit;
  while (named->name != cost.limit && named->alternative) --named;
  return named->name == cost.limit;
}

}  // namespace

void Tally::look_for_attributes(const RuleAnswer& answer, const LogLine& line,
                                const RequestCosts& costs, const AttributeSource& attributes) {
  if (lack_keys_ > 0) look_for_keys(answer, attributes);
  if (without_cost_ > 0) look_for_missing_costs(answer, line, costs);
  if (lack_costs_ == 0) return;
  for (const LimitAnswer& each : answer.limits) {
    LimitTally& limit = tally_of(each);
    if (!limit.lacks_cost) continue;
    const bool is_found =
        (line.has_cost && limit.cost_from.empty()) ||
        std::any_of(costs.limits.begin(), costs.limits.end(),
                    [&](const LimitCost& cost) { return is_cost_of(*limit.limit, cost); }) ||
        std::any_of(limit.cost_from.begin(), limit.cost_from.end(),
                    [&](const std::string& name) { return attributes.find(name).has_value(); });
    if (!is_found) continue;
    limit.lacks_cost = false;
    --lack_costs_;
  }
}

void Tally::look_for_keys(const RuleAnswer& answer, const AttributeSource& attributes) {
  for (const RuleAnswer::Matched& matched : answer.matched) {
    const auto index = static_cast<std::size_t>(matched.rule - file_order_.data());
    for (LimitTally& limit : rules[index].limits) {
      for (KeyPart& part : limit.key_from) {
        if (part.look_for(attributes)) --lack_keys_;
      }
    }
  }
}

void Tally::look_for_missing_costs(const RuleAnswer& answer, const LogLine& line,
                                   const RequestCosts& costs) {
  const auto costly =
      std::find_if(answer.limits.begin(), answer.limits.end(), [&](const LimitAnswer& each) {
        return (each.cost > 1 || line.units > 1) && each.decision.reason != Reason::kInvalid &&
               tally_of(each).reads_cost();
      });
  if (costly == answer.limits.end()) return;
  for (const LimitAnswer& each : answer.limits) {
    LimitTally& limit = tally_of(each);
    const bool has_own =
        std::any_of(costs.limits.begin(), costs.limits.end(),
                    [&](const LimitCost& cost) { return cost.limit == each.limit->name; });
    if (limit.costly_limit != nullptr || has_own || !may_need_cost(*each.limit)) continue;
    limit.costly_rule = costly->rule;
    limit.costly_limit = costly->limit;
    --without_cost_;
  }
}

bool Tally::overflowed() const noexcept {
  const auto limit_overflowed = [](const LimitTally& limit) { return limit.keys.overflowed(); };
  return std::any_of(rules.begin(), rules.end(), [&](const RuleTally& rule) {
    return (rule.clients && rule.clients->overflowed()) ||
           std::any_of(rule.limits.begin(), rule.limits.end(), limit_overflowed);
  });
}

namespace {

using SteadyClock = std::chrono::steady_clock;

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
        store_({.max_keys = options.max_keys,
                .max_log_bytes = std::size_t{1} << 30,
                .shards = 1}),  // one thread decides
        names_(rules, options.overrides),
        requests_(limiter_, rules, {.overrides = options.overrides}) {}

  rules::RequestNames& names() { return names_; }
  std::uint64_t evictions() const { return store_.stats().evictions; }

  // Decides the request with this name, or without one. The answer is valid until the next call.
  const RuleAnswer& decide(std::string_view name, const LogAttributes& attributes,
                           const RequestCosts& costs, Instant now) {
    if (costs.units == 1 && costs.limits.empty()) return requests_.decide(name, attributes, now);
    const RuleAnswer& answer = requests_.decider().decide(rules_, attributes, costs, now);
    const bool has_unknown = answer.decision.reason == Reason::kInvalid && answer.matched.empty();
    return has_unknown ? decide_without_unknown(attributes, costs, now) : answer;
  }

  // Reports the response of a request that was allowed.
  void report_response(const LogAttributes& attributes, Instant now) {
    if (counts_responses_) requests_.decider().report(rules_, attributes, attributes, 1, now);
  }

 private:
  // A server denies a request with a cost for a limit that no matching rule has. A field of a log
  // gives each line this cost, whatever rules match, so it is left out for the others.
  const RuleAnswer& decide_without_unknown(const LogAttributes& attributes, RequestCosts costs,
                                           Instant now) {
    const RuleAnswer& looked = requests_.decider().decide(rules_, attributes, 1, now, Verb::kPeek);
    known_costs_.clear();
    for (const LimitCost& cost : costs.limits) {
      if (is_limit_of(looked, cost.limit)) known_costs_.push_back(cost);
    }
    costs.limits = known_costs_;
    return requests_.decider().decide(rules_, attributes, costs, now);
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
  std::vector<LimitCost> known_costs_;
};

// Counts a request that both sets of rules have decided.
void compare(const RuleAnswer& first, const RuleAnswer& second, const LogLine& line, Instant now,
             ReplayComparison& comparison) {
  comparison.tally.count(second, line, now);
  comparison.series.advance(now);
  comparison.series.add(ReplayComparison::kRequests);
  if (!denies(first) && denies(second)) {
    comparison.only_against.count(second, line, now);
    comparison.series.add(ReplayComparison::kOnlyAgainst);
  }
  if (denies(first) && !denies(second)) {
    comparison.only_rules.count(first, line, now);
    comparison.series.add(ReplayComparison::kOnlyRules);
  }
  if (denies(first) && denies(second)) ++comparison.denied_both;
}

}  // namespace

bool ReplayReport::approximate() const noexcept {
  return evictions > 0 || tally.overflowed() || (comparison && comparison->tally.overflowed());
}

ReplayReport replay(const RuleSet& rules, const ReplayOptions& options) {
  const auto start = SteadyClock::now();
  RuleReplay first_rules(rules, options);
  std::optional<RuleReplay> second_rules;
  if (options.against != nullptr) second_rules.emplace(*options.against, options);
  LogInput input = static_cast<const LogInput&>(options);
  input.names = &first_rules.names();
  if (second_rules) input.second_names = &second_rules->names();
  ReplayReport report(rules, options);
  LogAttributes attributes;
  read_logs(input, report, [&](const LogBatch& batch, std::size_t i, Instant clock) {
    const LogLine& line = batch.lines[i];
    report.first = std::min(report.first.value_or(line.at), line.at);
    report.last = clock;
    attributes.show(line, batch.fields(line));
    const RequestCosts costs = batch.costs(line);
    const RuleAnswer& first = first_rules.decide(batch.name(i), attributes, costs, clock);
    const bool is_allowed = first.decision.allowed();
    report.tally.count(first, line, clock);
    report.tally.look_for_attributes(first, line, costs, attributes);
    if (second_rules) {
      const RuleAnswer& second =
          second_rules->decide(batch.second_name(i), attributes, costs, clock);
      compare(first, second, line, clock, *report.comparison);
      report.comparison->tally.look_for_attributes(second, line, costs, attributes);
      if (second.decision.allowed()) second_rules->report_response(attributes, clock);
    }
    if (is_allowed) first_rules.report_response(attributes, clock);
  });
  report.evictions = first_rules.evictions() + (second_rules ? second_rules->evictions() : 0);
  report.elapsed = std::chrono::round<std::chrono::milliseconds>(SteadyClock::now() - start);
  return report;
}

}  // namespace sluice::replay
