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

// Why the outcome is what it is. `kOk`, `kLimited` and `kNever` are the limit's own answers; the
// others say that something else answered in its place.
enum class Reason : std::uint8_t {
  kOk,            // it fits
  kLimited,       // it does not fit now; it will after retry_after
  kNever,         // the cost exceeds what the limit can ever hold
  kShadow,        // a rule on trial would have denied it, and let it pass
  kDenyCache,     // denied from memory of a recent denial, without asking the store
  kFallback,      // the store could not be asked; the rule's failure policy answered
  kStoreTimeout,  // the store did not answer in time; whether it counted is unknown
  kStoreError,    // the store answered with an error; nothing was counted
  kForeignValue,  // the store holds something else under that key; nothing was counted or touched
  kMissing,       // an attribute that the rule insists on was absent (`on_missing: deny`)
  kInvalid,       // the request itself is at fault (see Store::apply); nothing was counted
};

// "allowed", "denied" and "failed".
std::string_view to_string(Outcome outcome) noexcept;
// The reason in lower snake case, as every wire format spells it: "ok", "limited", "never", ...
std::string_view to_string(Reason reason) noexcept;

// Returns whether the reason says that a store could not decide. Whether it counted the request is
// unknown after kStoreTimeout.
constexpr bool store_failed(Reason reason) noexcept {
  return reason == Reason::kStoreTimeout || reason == Reason::kStoreError ||
         reason == Reason::kForeignValue;
}

// The answer to one charge, or to a request of several (then `capacity`, `remaining` and
// `reset_after` are those of its tightest limit, `retry_after` and `delay` the longest).
//
// A plain value: copy it freely, share it between threads that only read. No ownership, no
// allocation. It must be looked at: a dropped decision is a compiler warning where it is returned.
struct Decision {
  Outcome outcome = Outcome::kAllowed;
  Reason reason = Reason::kOk;
  // Units the limit holds when untouched: the burst where the algorithm has one, else the limit.
  std::uint32_t capacity = 0;
  // Whole units that would pass right now, after this decision; floored.
  std::uint32_t remaining = 0;
  // Until the limit is back to untouched if nothing else arrives; zero when it is.
  Duration reset_after{0};
  // Until this same cost would pass if nothing else arrives: denied one tick before, admitted at
  // it. Absent when allowed, and when it never would.
  std::optional<Duration> retry_after = {};
  // Shaping only (leaky_bucket in queue mode): how long an admitted request has to wait before it
  // proceeds, so that admitted requests leave evenly. Absent for every other limit.
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

// Returns whether a limit's own counter answered, so that `remaining` and the waits are its
// numbers. A failure policy, a failed store and a charge that the deny cache let pass have none.
constexpr bool has_numbers(const Decision& decision) noexcept {
  switch (decision.reason) {
    case Reason::kOk:
    case Reason::kLimited:
    case Reason::kNever:
    case Reason::kShadow: return true;
    case Reason::kDenyCache: return !decision.allowed();
    case Reason::kFallback:
    case Reason::kStoreTimeout:
    case Reason::kStoreError:
    case Reason::kForeignValue:
    case Reason::kMissing:
    case Reason::kInvalid: break;
  }
  return false;
}

}  // namespace sluice
