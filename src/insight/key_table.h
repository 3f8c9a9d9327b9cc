#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "insight/key_sketch.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::insight {

// What one loop has counted of one limit.
struct CountedKeys {
  explicit CountedKeys(std::size_t most) : asked(most), denied(most) {}
  KeySketch asked;
  KeySketch denied;
};

// A limit in one loop. The loop fills `live`. In between, the collector empties `handed`.
struct KeySlot {
  std::unique_ptr<CountedKeys> live;
  std::unique_ptr<CountedKeys> handed;
  std::atomic<bool> is_handed{false};  // `handed` belongs to the collector
  bool is_used = false;                // since the last hand_over()
};

// The limits of one set of rules in one loop, and for each algorithm the limits that requests bring
// along.
struct KeyTable {
  explicit KeyTable(const RuleSet& of) : rules(of), all(rules.rules()) {
    first_limit.reserve(all.size());
    std::size_t limits = 0;
    for (const Rule& rule : all) {
      first_limit.push_back(limits);
      limits += rule.limits.size();
    }
    of_rules = limits;
    limits += kAlgorithms.size();
    slots = std::make_unique<KeySlot[]>(limits);
    used.reserve(limits);
    names.reserve(limits);
    for (const Rule& rule : all) {
      for (const RuleLimit& limit : rule.limits) names.emplace_back(rule.name, limit.name);
    }
    for (const AlgorithmInfo& algorithm : kAlgorithms) names.emplace_back("", algorithm.name);
  }
  // Returns the index of a limit's slot. For a limit of other rules it is the slot of the limit
  // with the same names, which takes longer; nothing if there is none.
  std::optional<std::size_t> index_of(const LimitAnswer& answer) const noexcept {
    const auto rule = static_cast<std::size_t>(answer.rule - all.data());
    if (rule < all.size()) {
      const auto limit = static_cast<std::size_t>(answer.limit - all[rule].limits.data());
      if (limit < all[rule].limits.size()) return first_limit[rule] + limit;
    }
    const auto same = std::find_if(names.begin(), names.end(), [&](const auto& known) {
      return known.first == answer.rule->name && known.second == answer.limit->name;
    });
    if (same == names.end()) return {};
    return static_cast<std::size_t>(same - names.begin());
  }
  std::size_t index_of(Algorithm algorithm) const noexcept {
    return of_rules + static_cast<std::size_t>(algorithm);
  }

  const RuleSet rules;
  std::size_t keys = 0;  // that are counted of each limit
  const std::span<const Rule> all;
  std::vector<std::size_t> first_limit;  // of each rule
  std::size_t of_rules = 0;              // the number of slots for limits of rules
  std::vector<std::pair<std::string_view, std::string_view>> names;  // of a rule and a limit
  std::unique_ptr<KeySlot[]> slots;
  std::vector<std::size_t> used;  // the slots with is_used
};

// What the collector is to read: `handed` of a slot, or `live` of one that its loop has left.
struct HandedKeys {
  std::shared_ptr<KeyTable> table;
  std::size_t slot = 0;
  bool is_left = false;
};

}  // namespace sluice::insight
