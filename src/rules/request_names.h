#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/attributes.h"
#include "rules/rule_set.h"
#include "sluice/limiter.h"
#include "sluice/overrides.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// Decides takes of one unit by one set of rules, as a RuleDecider does, and remembers requests by
// their RequestNames: the charges and the answer of a remembered request are those of the earlier
// one, at another time. That saves about half of the time. For logs, in which a client has many
// requests. Limits with permits do not apply: a log does not say when a request ends.
//
// Thread-safety: one thread. Ownership: borrows the limiter and the stores, shares the rules. Cost:
// about 12 KB for each of up to kRemembered requests.
class RememberedRequests {
 public:
  RememberedRequests(Limiter& limiter, const RuleSet& rules, const RuleStores& stores = {});

  // Decides the request with this name, or with an empty name if it has none. The answer is valid
  // until the next call. The overrides must be those of the name.
  const RuleAnswer& decide(std::string_view name, const AttributeSource& attributes, Instant now);
  // Decides other requests by the same limits.
  RuleDecider& decider() noexcept { return decider_; }

 private:
  static constexpr std::size_t kRemembered = 256;
  struct Remembered {
    std::string name;  // empty: no request
    RuleDecider decider;
  };

  Remembered& place_of(std::string_view name);

  Limiter& limiter_;
  const RuleSet rules_;
  const RuleStores stores_;
  RuleDecider decider_;                                // for requests without a name
  std::vector<std::optional<Remembered>> remembered_;  // never resized
  Remembered* last_ = nullptr;
};

// Names requests for RememberedRequests: takes of one unit with the same name have the same limits
// and counters. The name consists of the rules that match and of the attributes in their keys.
//
// Thread-safety: one thread. Ownership: shares the rules. Cost: that of matching, and of copying
// the attributes.
class RequestNames {
 public:
  static constexpr std::size_t kLongest = 1024;

  // `overrides` are those of the decisions; null: none. With overrides no request has a name.
  explicit RequestNames(const RuleSet& rules, const Overrides* overrides = nullptr);

  // The name, valid until the next call. Empty: the request must be decided without one. No rule
  // matches, more than keys depends on its attributes (costs, plans, responses), or the name would
  // be longer than kLongest.
  std::string_view name(const AttributeSource& request);

 private:
  void append(std::size_t rule, const std::optional<std::string_view>& value);

  const RuleSet rules_;
  // By the index of the rule: the attributes in its keys. Absent: its requests have no names.
  std::vector<std::optional<std::vector<std::uint32_t>>> attributes_;
  AttributeValues values_;
  std::string name_;
};

}  // namespace sluice::rules
