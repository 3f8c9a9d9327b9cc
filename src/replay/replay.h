#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "replay/log_input.h"
#include "replay/tally.h"
#include "sluice/overrides.h"
#include "sluice/rule_set.h"

namespace sluice::replay {

struct ReplayOptions : LogInput {
  // The maximum number of counters, and of keys per limit. Beyond it the results are approximate,
  // and the report says so. About 120 bytes per key.
  std::size_t max_keys = std::size_t{4} << 20;
  // Rules to compare with: they decide the same requests, with counters of their own. Null: none.
  const RuleSet* against = nullptr;
  // What single keys have instead of the numbers of their limits. Null: nothing.
  const Overrides* overrides = nullptr;
};

// How the decisions of two sets of rules differ. Borrows the rules.
struct ReplayComparison {
  ReplayComparison(const RuleSet& rules, const RuleSet& against, std::size_t most_keys)
      : tally(against, most_keys), only_rules(rules, most_keys), only_against(against, most_keys) {}

  Tally tally;                    // of the rules to compare with
  Tally only_rules;               // the requests that only the first rules deny
  Tally only_against;             // the requests that only the rules to compare with deny
  std::uint64_t denied_both = 0;  // requests that both deny
};

// The result of a replay. Borrows the rules.
struct ReplayReport : LogTotals {
  ReplayReport(const RuleSet& rules, const ReplayOptions& options)
      : tally(rules, options.max_keys) {
    if (options.against != nullptr) comparison.emplace(rules, *options.against, options.max_keys);
  }

  std::uint64_t late = 0;        // out-of-order lines, decided at the latest time read so far
  std::optional<Instant> first;  // the earliest timestamp
  std::optional<Instant> last;   // the latest
  std::uint64_t evictions = 0;   // counters evicted because of max_keys
  std::chrono::milliseconds elapsed{0};
  Tally tally;
  std::optional<ReplayComparison> comparison;

  std::uint64_t allowed() const noexcept { return parsed() - tally.denied; }
  bool approximate() const noexcept;
};

// Decides every request of the logs, in their order, by the rules, and by those to compare with in
// the same pass, at the times in the logs. The clock never goes back: an out-of-order line is
// decided at the latest time read so far.
//
// A second thread reads, parses and matches the rules; the calling thread decides. Memory depends
// only on the number of keys. Lines that are not access log lines are counted, and unreadable logs
// are skipped.
ReplayReport replay(const RuleSet& rules, const ReplayOptions& options);

}  // namespace sluice::replay
