#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// Decides takes of one unit by one set of rules, as a RuleDecider does, and remembers requests by
// their RequestNames: the charges and the answer of a remembered request are those of the earlier
// one, at another time. That saves about half of the time. For logs, in which a client has many
// requests.
//
// Thread-safety: one thread. Ownership: borrows the limiter and the stores, shares the rules. Cost:
// about 12 KB for each of up to kRemembered requests.
class RememberedRequests {
 public:
  RememberedRequests(Limiter& limiter, const RuleSet& rules, const RuleStores& stores = {});

  // Decides the request with this name, or with an empty name if it has none. The answer is valid
  // until the next call. The overrides must be those of the name.
  const RuleAnswer& decide(std::string_view name, const AttributeSource& attributes, Instant now);

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

}  // namespace sluice::rules
