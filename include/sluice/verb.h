#pragma once

#include <cstdint>

#include "sluice/clock.h"

namespace sluice {

// What a request does to its counters.
enum class Verb : std::uint8_t {
  kTake,        // take all charges, or none
  kPeek,        // decide as kTake would, and change nothing
  kRefund,      // give back the newest `cost` units of each charge; never beyond untouched
  kReset,       // forget the counter of each charge; the cost is ignored
  kCharge,      // count work that is already done: always allowed, kOver beyond the limit; or give
                // back, see Charge::gives_back
  kTakeAtMost,  // take the same number of units from every charge: as many as all have, up to cost
  kReserve,     // take now what a take would get within `max_wait`; the caller waits for `delay`
  kRelease,     // concurrency: end the permit of each charge; kGone if it has ended in all of them
  kExtend,      // concurrency: start the leases of the permit again; kGone if it has ended in one;
                // budget: the hold lasts for `max_wait` from now
  kBlock,       // block the key of each charge for `max_wait` from now, whatever it was before
  kUnblock,     // end the block of each charge, and forget the denials and how long it lasted
  kHold,    // budget: keep the units under an id for `max_wait`, to settle them later; else take
  kSettle,  // budget: end the hold of the id, and spend `cost`
  kCancel,  // budget: end the hold of the id, and spend nothing
};

// What a request does: a verb, and how long a reservation may wait, or a block or a hold lasts.
// Converts from a verb.
//
//   limiter.apply(Verb::kTake, charges);
//   limiter.apply({Verb::kReserve, 500ms}, charges);
struct Action {
  // NOLINTNEXTLINE(google-explicit-constructor): a verb is the action of most requests
  constexpr Action(Verb what, Duration wait = Duration{0}) noexcept : verb(what), max_wait(wait) {}

  Verb verb;
  // kReserve: at least 0; kBlock: kMinPeriod to kMaxPeriod; kHold and kExtend of a budget: kMinHold
  // to kMaxHold; else ignored
  Duration max_wait;

  friend constexpr bool operator==(const Action&, const Action&) = default;
};

// Whether the verb takes units if all limits allow it, and nothing if one denies.
constexpr bool takes(Verb verb) noexcept {
  return verb == Verb::kTake || verb == Verb::kTakeAtMost || verb == Verb::kReserve ||
         verb == Verb::kHold;
}

// Whether the verb changes a permit that exists. The cost is ignored.
constexpr bool changes_permit(Verb verb) noexcept {
  return verb == Verb::kRelease || verb == Verb::kExtend;
}

// Whether the verb counts work that is done, whatever the limit says.
constexpr bool counts_work(Verb verb) noexcept {
  return verb == Verb::kCharge || verb == Verb::kSettle || verb == Verb::kCancel;
}

// Whether the verb is about an id of a budget.
constexpr bool needs_id(Verb verb) noexcept {
  return verb == Verb::kHold || verb == Verb::kSettle || verb == Verb::kCancel ||
         verb == Verb::kExtend;
}

// Whether the verb changes nothing but blocks (Charge::block), which its charges must have.
constexpr bool changes_block(Verb verb) noexcept {
  return verb == Verb::kBlock || verb == Verb::kUnblock;
}

// Whether the verb asks for permission, so that a failure policy may answer for the store. The
// others report what has happened.
constexpr bool asks(Verb verb) noexcept { return takes(verb) || verb == Verb::kPeek; }

}  // namespace sluice
