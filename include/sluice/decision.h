#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/clock.h"

namespace sluice {

// What a store decided. Only kAllowed lets the request pass.
enum class Outcome : std::uint8_t {
  kAllowed,  // the request passes
  kDenied,   // a limit or a failure policy denies the request
  kFailed,   // the store could not decide, and no failure policy answered
};

// Why a decision has its outcome. The limit itself answers kOk, kOver, kLimited, kNever, kBlocked,
// kGone, kConflict and kTooManyHolds.
enum class Reason : std::uint8_t {
  kOk,            // the cost fits
  kLease,         // the cost fits into the units that a LeasedStore has taken ahead
  kOver,          // allowed, because the work is already done (kCharge), but beyond the limit
  kLimited,       // the cost does not fit now; it will after `retry_after`
  kNever,         // the cost exceeds what the limit can ever hold, or what a budget that does not
                  // renew has left
  kBlocked,       // the key is blocked, after too many denials or by hand, until `retry_after`
  kShadow,        // allowed; a rule in shadow mode would have denied the request
  kDenyCache,     // the deny cache answered: this counter denied a moment ago
  kFallback,      // the store could not decide; the failure policy answered
  kStoreTimeout,  // the store did not answer in time; it may have counted the request
  kStoreError,    // the store could not be asked or answered with an error; nothing was counted
  kForeignValue,  // another program's value is under the key; nothing was counted or changed
  kStoreFull,     // the store has no room for a new counter; nothing was counted
  kMissing,       // an attribute that the rule requires is absent (`on_missing: deny`)
  // Too many callers wait for units already; nothing was counted.
  kTooManyWaiters,
  kGone,          // the permit or the hold has ended: released, settled, or at its end
  kConflict,      // the id was decided before with another amount; nothing was counted
  kTooManyHolds,  // the budget has as many open holds as it may have; nothing was counted
  kDenyRule,      // a rule with `action: deny` matched; nothing was counted
  kInvalid,       // the request itself is wrong (Store::apply); nothing was counted
};

// Returns "allowed", "denied" or "failed".
std::string_view to_string(Outcome outcome) noexcept;
// Returns the reason as every wire format spells it, in lower snake case: "ok", "store_timeout".
std::string_view to_string(Reason reason) noexcept;

// Returns whether the reason says that a store could not decide. Whether it counted the request is
// unknown after kStoreTimeout.
constexpr bool store_failed(Reason reason) noexcept {
  return reason == Reason::kStoreTimeout || reason == Reason::kStoreError ||
         reason == Reason::kForeignValue || reason == Reason::kStoreFull;
}

// The answer to one charge, or to a request of several charges. Then `capacity`, `remaining`,
// `spent`, `held` and `reset_after` are those of the tightest limit; `retry_after` and `delay` are
// the longest.
//
// A plain value that borrows nothing and allocates nothing: copy it freely, read it from any
// thread. The compiler warns if a caller drops the decision of try_acquire(), peek() or check().
struct Decision {
  Outcome outcome = Outcome::kAllowed;
  Reason reason = Reason::kOk;
  // kBlocked: the block has started with this denial.
  bool starts_block = false;
  // budget: the id was decided before in the same way; nothing was counted this time. Of a request:
  // by one of its budgets.
  bool repeated = false;
  // budget: the hold had ended before it was settled, or there was none; the amount counts.
  bool late = false;
  // A budget in a row of which another one answers: nothing was counted here, and the request does
  // not depend on it.
  bool passed_over = false;
  // Units that the limit holds when untouched: the burst if the algorithm has one, else the limit.
  // At most kMaxUnits, except for budget.
  std::uint64_t capacity = 0;
  // Whole units that would pass right now, after this decision; rounded down.
  std::uint64_t remaining = 0;
  // kTakeAtMost only: the units that were taken from every charge.
  std::uint64_t taken = 0;
  // budget: the units that are spent in its window, and those that open holds keep.
  std::uint64_t spent = 0;
  std::uint64_t held = 0;
  // The time until the limit is untouched again if nothing else arrives.
  Duration reset_after{0};
  // budget: the time until the hold of the id ends; 0: it has none. Of a request: the least.
  Duration ends_after{0};
  // The time until this same cost would pass if nothing else arrives: denied one microsecond
  // earlier, admitted then. Absent if allowed, if it can never pass, and if the store failed.
  std::optional<Duration> retry_after = {};
  // How long an admitted request must wait before it acts: a reservation, until its turn;
  // leaky_bucket in queue mode, so that admitted requests leave evenly. Otherwise absent.
  std::optional<Duration> delay = {};

  // A decision without numbers: kFailed if the reason says that a store failed, else kDenied.
  static constexpr Decision refused(Reason reason) noexcept {
    return {.outcome = store_failed(reason) ? Outcome::kFailed : Outcome::kDenied,
            .reason = reason};
  }

  // Whether the request passes: true for kAllowed only, so a failed store is not a full bucket.
  constexpr bool allowed() const noexcept { return outcome == Outcome::kAllowed; }
  constexpr explicit operator bool() const noexcept { return allowed(); }
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Returns whether a limit's own counter or its block answered, so that `remaining` and the waits
// are its numbers. A failure policy, a failed store and a charge that the deny cache let pass have
// none.
constexpr bool has_numbers(const Decision& decision) noexcept {
  switch (decision.reason) {
    case Reason::kOk:
    case Reason::kLease:
    case Reason::kOver:
    case Reason::kLimited:
    case Reason::kNever:
    case Reason::kBlocked:
    case Reason::kGone:
    case Reason::kConflict:
    case Reason::kTooManyHolds:
    case Reason::kShadow: return true;
    case Reason::kDenyCache: return !decision.allowed();
    case Reason::kFallback:
    case Reason::kStoreTimeout:
    case Reason::kStoreError:
    case Reason::kForeignValue:
    case Reason::kStoreFull:
    case Reason::kMissing:
    case Reason::kTooManyWaiters:
    case Reason::kDenyRule:
    case Reason::kInvalid: break;
  }
  return false;
}

namespace detail {

// Whether the store has taken units of the limit, so that they can be given back. A failure policy
// takes none of the store's units, and neither does a charge in a row that was passed over. Permits
// are released in any case: a local store may have given them.
constexpr bool took_units(const Decision& decision) noexcept {
  const bool is_counted = decision.reason == Reason::kOk || decision.reason == Reason::kLease;
  return decision.allowed() && is_counted && !decision.passed_over;
}

}  // namespace detail

}  // namespace sluice
