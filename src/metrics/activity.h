#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "metrics/metrics.h"

namespace sluice::metrics {

// The counts that a person watches: the requests of each rule, and how long the answers took.
// Counts never decrease while the rules stay the same.
struct Activity {
  struct Requests {
    std::uint64_t allowed = 0;
    std::uint64_t denied = 0;  // or failed
    // A shadow rule would have denied them; if it has several limits, the one that denied most.
    std::uint64_t would_deny = 0;
  };

  // Of a rule by its position in the rules that were asked for; the last one: of no rule.
  std::vector<Requests> rules;
  // What each limit of a shadow rule would have denied, by its position in all limits.
  std::vector<std::uint64_t> would_deny;
  // The answers of all rules by their reason.
  std::array<std::uint64_t, static_cast<std::size_t>(Reason::kInvalid) + 1> reasons{};
  // Of a front end: element k counts the requests that took at most 2^k µs, the last one all
  // others.
  std::array<std::array<std::uint64_t, 22>, kFrontEnds> durations{};
};

}  // namespace sluice::metrics
