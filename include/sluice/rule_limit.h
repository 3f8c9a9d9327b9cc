#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/block.h"
#include "sluice/limit.h"

namespace sluice {

// What a limit does if an attribute that its key or its cost reads is absent or empty: it does not
// apply, or it denies the request.
enum class OnMissing : std::uint8_t { kSkip, kDeny };

// One limit of a rule. A plain value that owns its texts.
struct RuleLimit {
  std::string name;  // "RULE/INDEX" if the file has none
  std::string key;   // the template as written; empty: one counter for all requests
  Limit limit;       // its own numbers, or those of the rule's default plan
  OnMissing on_missing = OnMissing::kSkip;
  std::string cost = {};  // as written; empty: as `request` (docs/rules.md, Costs)
  std::vector<Limit> by_plan =
      {};  // by the index in Rule::plans; empty: no plan has numbers for it
  std::optional<Block> block = {};  // after repeated denials; absent: none
  // `count`: decisions only look at the limit, and RuleDecider::report() charges it.
  bool counts_responses = false;
  // `warn`: the percentage of the limit from which on LimitAnswer::near is true; 0: none.
  std::uint8_t warn_percent = 0;

  // As a charge borrows it (Charge::block).
  const Block* block_of_charges() const noexcept { return block ? &*block : nullptr; }
};

}  // namespace sluice
