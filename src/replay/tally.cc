#include "replay/tally.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace sluice::replay {

void KeyTally::count(const LimitAnswer& answer, Instant at) {
  Entry* entry = entry_of(answer.counter);
  if (entry == nullptr) return;
  ++entry->requests;
  if (!answer.decision.allowed()) count_denial(*entry, answer, at);
}

KeyTally::Entry* KeyTally::entry_of(std::string_view counter) {
  if (last_entry_ != nullptr && counter == last_counter_) return last_entry_;
  const XXH128_hash_t hash = XXH3_128bits(counter.data(), counter.size());
  const Hash key{hash.low64, hash.high64};
  auto found = keys_.find(key);
  if (found == keys_.end()) {
    if (keys_.size() >= most_keys_) {
      overflowed_ = true;
      return nullptr;
    }
    found = keys_.emplace(key, Entry{}).first;
  }
  last_counter_.assign(counter);
  last_entry_ = &found->second;
  return last_entry_;
}

void KeyTally::count_denial(Entry& entry, const LimitAnswer& answer, Instant at) {
  if (entry.denied_index == kNeverDenied) {
    entry.denied_index = static_cast<std::uint32_t>(denied_.size());
    denied_.push_back({std::string(answer.label.substr(0, kLongestLabel)), 0, 0, at, at});
    const XXH128_hash_t hash = XXH3_128bits(answer.counter.data(), answer.counter.size());
    denied_hashes_.push_back({hash.low64, hash.high64});
  }
  DeniedKey& key = denied_[entry.denied_index];
  ++key.denied;
  key.last = at;
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
    most.back().requests = keys_.at(denied_hashes_[*index]).requests;
  }
  return most;
}

Tally::Tally(const RuleSet& rule_set, std::size_t most_keys)
    : file_order_(rule_set.rules()), series_(rule_channel(rule_set.rules().size())) {
  for (const Rule& rule : rule_set.rules()) {
    RuleTally& tally = rules.emplace_back();
    tally.rule = &rule;
    for (const RuleLimit& limit : rule.limits) {
      tally.limits.push_back({&limit, 0, 0, KeyTally(most_keys)});
    }
  }
}

void Tally::count(const RuleAnswer& answer, Instant at) {
  series_.advance(at);
  series_.add(kRequests);
  ++requests;
  if (answer.matched.empty()) ++unmatched;
  if (!answer.decision.allowed()) {
    ++denied;
    series_.add(kDenied);
  }
  const Reason reason = answer.decision.reason;
  if (store_failed(reason) || reason == Reason::kFallback) ++undecided;
  for (const RuleAnswer::Matched& matched : answer.matched) {
    const auto index = static_cast<std::size_t>(matched.rule - file_order_.data());
    RuleTally& tally = rules[index];
    ++tally.matched;
    tally.denied += matched.denied ? 1 : 0;
    series_.add(rule_channel(index));
    if (matched.denied) series_.add(rule_channel(index) + 1);
  }
  for (const LimitAnswer& each : answer.limits) {
    RuleTally& tally = rules[static_cast<std::size_t>(each.rule - file_order_.data())];
    LimitTally& limit =
        tally.limits[static_cast<std::size_t>(each.limit - each.rule->limits.data())];
    ++limit.requests;
    limit.denied += each.decision.allowed() ? 0 : 1;
    if (!each.counter.empty()) limit.keys.count(each, at);
  }
}

bool Tally::overflowed() const noexcept {
  const auto limit_overflowed = [](const LimitTally& limit) { return limit.keys.overflowed(); };
  return std::any_of(rules.begin(), rules.end(), [&](const RuleTally& rule) {
    return std::any_of(rule.limits.begin(), rule.limits.end(), limit_overflowed);
  });
}

}  // namespace sluice::replay
