#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "metrics/metrics.h"

namespace sluice::metrics {

inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::kInvalid) + 1;

// The counts that a person watches: the requests of each rule, and how long the answers took.
// Counts never decrease while the rules stay the same.
struct Activity {
  // Of a rule or a limit.
  struct Counts {
    // The answers of a limit. A rule: its requests, or more: what the limit was asked that was
    // asked most.
    std::uint64_t asked = 0;
    std::uint64_t allowed = 0;
    std::uint64_t denied = 0;  // or failed
    // By a limit of a shadow rule, which is not in `denied`. A rule: the limit that denied most.
    std::uint64_t would_deny = 0;
    std::uint64_t failed = 0;  // of `asked`: the store could not decide
    // Of a rule: of all its limits.
    std::uint64_t near = 0;     // a key came near the limit
    std::uint64_t skipped = 0;  // not of `asked`: the limit did not apply
  };

  // Of a rule by its position in the rules that were asked for; the last one: of no rule. Each
  // request is of one rule here: one that several rules allow is of the first of them.
  std::vector<Counts> rules;
  std::vector<Counts> limits;  // of each limit by its position in all limits
  // Requests that the store could not decide since the start, by these and earlier rules.
  std::uint64_t failed = 0;
  // The answers of all rules by their reason.
  std::array<std::uint64_t, kReasons> reasons{};
  std::array<DurationCounts, kFrontEnds> durations;

  // Of all rules; `asked`: the requests.
  Counts total() const noexcept;
};

inline constexpr std::size_t kOutcomes = 2;  // allowed, and denied or failed

constexpr std::size_t cell_of(Outcome outcome, Reason reason) noexcept {
  return (outcome == Outcome::kAllowed ? 0 : kReasons) + static_cast<std::size_t>(reason);
}
inline constexpr std::size_t kShadowCell = kOutcomes * kReasons;   // denials by a shadow rule
inline constexpr std::size_t kNewCell = kShadowCell + 1;           // lacked a counter
inline constexpr std::size_t kBlockCell = kNewCell + 1;            // started a block
inline constexpr std::size_t kNearCell = kBlockCell + 1;           // a key came near the limit
inline constexpr std::size_t kSkippedCell = kNearCell + 1;         // did not apply
inline constexpr std::size_t kUnknownPlanCell = kSkippedCell + 1;  // of requests: named no plan
inline constexpr std::size_t kCells = kUnknownPlanCell + 1;

// The counts of one limit, or of the requests that one rule decided.
struct alignas(kCacheLine) Tally {
  std::array<Count, kCells> cells;
};

// Sums of tallies, and whether an active rule counts for them and is a shadow rule, has a block,
// warns, may be skipped, or has plans.
struct Total {
  std::array<std::uint64_t, kCells> cells{};
  bool shadow = false;
  bool blocks = false;
  bool warns = false;
  bool skips = false;
  bool plans = false;

  void add(const Tally& tally) noexcept;
};

// Totals by the names of rules and of limits, and of all front ends and events.
struct Totals {
  std::map<std::pair<std::string, std::string>, Total> limits;
  std::map<std::string, Total> requests;  // "": requests that no rule decided
  std::array<DurationCounts, kFrontEnds> durations;
  std::array<std::uint64_t, kEvents> events{};
};

// The tallies of one set of rules, indexed by the positions of rule and limit.
class RuleCounts {
 public:
  RuleCounts();  // for no rules
  explicit RuleCounts(const RuleSet& rules);

  void count(const RuleAnswer& answer, std::uint64_t near) noexcept;
  void count_refused_new(const RuleAnswer& answer) noexcept;
  void add_to(Totals& totals) const;
  void add_to(Activity& to) const noexcept;  // which is of these rules
  bool knows(const std::string& rule, const std::string& limit) const noexcept;
  bool knows(const std::string& rule) const noexcept;
  // Identifies the set of rules; null: no rules.
  const Rule* id() const noexcept { return rules_ ? rules_->rules().data() : nullptr; }

 private:
  std::size_t index_of(const Rule* rule) const noexcept;
  Tally* tally_of(const Rule* rule, const RuleLimit* limit) const noexcept;

  std::optional<RuleSet> rules_;
  std::span<const Rule> all_;
  std::vector<std::size_t> first_limit_;  // of each rule, in `limits_`
  std::unique_ptr<Tally[]> limits_;
  std::unique_ptr<Tally[]> requests_;  // of each rule, and of no rule
};

// What the recorders of a registry share. The lock is held while a recorder changes its rules and
// while all counts are collected. The counts of earlier rules are kept here as long as a recorder
// has rules with these names.
struct Shared {
  std::mutex mutex;
  Totals kept;  // only of rules
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<std::function<void(Writer&)>> asked;  // each writes a metric
  std::set<std::string> names;                      // of these

  void keep(const RuleCounts& late);
  void forget_unknown_names();  // under the lock
};

}  // namespace sluice::metrics
