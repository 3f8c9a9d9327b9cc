#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "metrics/metrics.h"

namespace sluice::metrics {

// The counts that a person watches: the requests of each rule, and how long the answers took.
// Counts never decrease while the rules stay the same.
struct Activity {
  struct Requests {
    // Each request is of one rule here: one that several rules allow is of the first of them.
    std::uint64_t allowed = 0;
    std::uint64_t denied = 0;  // or failed
    // `allowed` and `denied`, or more: what the limit was asked that was asked most.
    std::uint64_t asked = 0;
    // A shadow rule would have denied them; if it has several limits, the one that denied most.
    std::uint64_t would_deny = 0;
    std::uint64_t failed = 0;  // of both: the store could not decide
  };
  // The answers of one limit.
  struct OfLimit {
    std::uint64_t asked = 0;
    std::uint64_t denied = 0;      // or failed, by an enforced rule
    std::uint64_t would_deny = 0;  // by a shadow rule
    std::uint64_t failed = 0;      // of `asked`: the store could not decide
    std::uint64_t near = 0;        // a key came near the limit
    std::uint64_t skipped = 0;     // not of `asked`: the limit did not apply
  };

  // Of a rule by its position in the rules that were asked for; the last one: of no rule.
  std::vector<Requests> rules;
  std::vector<OfLimit> limits;  // of each limit by its position in all limits
  // Requests that the store could not decide since the start, by these and earlier rules.
  std::uint64_t failed = 0;
  // The answers of all rules by their reason.
  std::array<std::uint64_t, static_cast<std::size_t>(Reason::kInvalid) + 1> reasons{};
  // Of a front end: element k counts the requests that took at most 2^k µs, the last one all
  // others.
  std::array<std::array<std::uint64_t, 22>, kFrontEnds> durations{};
};

inline constexpr std::size_t kOutcomes = 2;  // allowed, and denied or failed
inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::kInvalid) + 1;

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
  void add(const Total& other) noexcept;
};

// Totals by the names of rules and of limits, and of all front ends and events.
struct Totals {
  std::map<std::pair<std::string, std::string>, Total> limits;
  std::map<std::string, Total> requests;  // "": requests that no rule decided
  std::array<DurationCounts, kFrontEnds> durations;
  std::array<std::uint64_t, kEvents> events{};

  void add(const Recorder::State& recorder);
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

// The state that the recorders of a registry share. The lock is held while a recorder changes its
// rules and while all counts are collected. The counts of earlier rules are kept here as long as a
// recorder has rules with these names.
struct Shared {
  std::mutex mutex;
  Totals kept;  // only of rules
  std::vector<const Recorder::State*> recorders;

  void keep(const RuleCounts& late);
  void forget_unknown_names();  // under the lock
};

struct Recorder::State {
  explicit State(Shared& all) : shared(all), rules(std::make_unique<RuleCounts>()) {}

  Shared& shared;
  std::unique_ptr<RuleCounts> rules;  // replaced by the recorder's thread, under the lock
  std::array<Durations, kFrontEnds> durations;
  std::array<Count, kEvents> events;
  Count failed;  // requests that the store could not decide, by any rules

  void note(const RuleAnswer& answer) noexcept;  // counts in `failed`
};

// Registry::activity(): of no recorder; with what a recorder has counted by these rules; with what
// rules have of their limits.
Activity empty_activity(const RuleSet& rules);
void add_of_limits(Activity& to, const RuleSet& rules) noexcept;
void add_recorder(Activity& to, const Recorder::State& recorder, const RuleSet& rules) noexcept;

}  // namespace sluice::metrics
