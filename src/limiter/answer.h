#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <span>

#include "core/block.h"
#include "core/step.h"
#include "sluice/block.h"
#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/store.h"
#include "sluice/verb.h"

namespace sluice {

// Whether reset_after is the time until the limit is fully replenished. A budget that does not
// renew is so only once its holds have ended, if nothing else is spent.
constexpr bool is_ever_full(const Limit& limit, const Decision& decision) noexcept {
  return limit.period() != kNeverEnds || decision.reset_after <= kMaxHold;
}

// Whether a budget may be asked under an id: the other verbs would ignore it.
constexpr bool may_have_id(Verb verb) noexcept {
  return verb == Verb::kTake || verb == Verb::kPeek || verb == Verb::kCharge || needs_id(verb);
}

// Whether a verb has the id that it needs from a budget, or none, and a hold a time that is right.
constexpr bool fits_budget(Action action, const Charge& charge) noexcept {
  const Verb verb = action.verb;
  const bool has_time = action.max_wait >= kMinHold && action.max_wait <= kMaxHold;
  if ((verb == Verb::kHold || verb == Verb::kExtend) && !has_time) return false;
  if (charge.permit == nullptr) return !needs_id(verb) && verb != Verb::kRelease;
  return may_have_id(verb);
}

// Whether the verb is one for the algorithm of the charge, and has the permit that it needs; and
// whether the charge may give back: see Store::apply().
constexpr bool verb_fits(Action action, const Charge& charge) noexcept {
  const Verb verb = action.verb;
  if (charge.gives_back) return verb == Verb::kCharge;
  if (holds_amounts(charge.limit.algorithm())) return fits_budget(action, charge);
  if (verb == Verb::kSettle || verb == Verb::kCancel) return false;
  if (!holds_permits(charge.limit.algorithm())) return !changes_permit(verb);
  const bool needs_permit = takes(verb) || changes_permit(verb);
  return verb != Verb::kCharge && (charge.permit != nullptr || !needs_permit);
}

// The largest cost that a limit may admit.
constexpr std::uint64_t most_cost(const Limit& limit) noexcept {
  return holds_amounts(limit.algorithm()) ? kMaxAmount : kMaxUnits;
}

// Whether a charge may be an alternative to the one before it (Charge::alternative).
constexpr bool row_fits(Action action, const Charge& before, const Charge& charge) noexcept {
  const bool is_of_one_id = (before.permit != nullptr) == (charge.permit != nullptr);
  return action.verb != Verb::kTakeAtMost && is_of_one_id &&
         holds_amounts(before.limit.algorithm()) && holds_amounts(charge.limit.algorithm()) &&
         before.block == nullptr && charge.block == nullptr;
}

// Whether one of budgets in a row answers for all, and not each by its own cost.
constexpr bool chooses(Verb verb, const Charge& charge) noexcept {
  return asks(verb) || charge.permit != nullptr;
}

// Returns how many of the counters, from the first on, are budgets in a row: at least 1.
template <typename Counter>
std::size_t row_size(std::span<const Counter> counters) noexcept {
  std::size_t size = 1;
  while (size < counters.size() && counters[size].is_alternative()) ++size;
  return size;
}

// Whether the charge with this index agrees with those before it with regard to budgets in a row.
// It is on the counter with the index `own`, a new one if `counters` end before it, and the charge
// before it on `previous`. A row that is asked again must be the whole row.
template <typename Counter>
bool row_agrees(Action action, std::span<const Charge> charges, std::size_t index,
                std::span<const Counter> counters, std::size_t own, std::size_t previous) noexcept {
  const bool is_new = own == counters.size();
  const bool is_alternative = index > 0 && charges[index].alternative;
  if (is_alternative &&
      (previous + 1 != own || !row_fits(action, charges[index - 1], charges[index]))) {
    return false;
  }
  if (is_new) return !is_alternative || counters[previous].is_alone();
  const bool goes_on = index + 1 < charges.size() && charges[index + 1].alternative;
  const bool is_last = own + 1 == counters.size() || !counters[own + 1].is_alternative();
  const bool is_in_row = own > 0 && counters[own].is_alternative();
  return is_in_row == is_alternative && (goes_on || is_last);
}

// Chooses the one of the budgets in a row that answers, once all have been asked: see
// Store::apply(). A counter says chooses(verb), knows_id() and admits(), and can pass_over() and
// wait_less(other).
template <typename Counter>
void choose_in_row(Verb verb, std::span<Counter> row) noexcept {
  if (row.size() == 1 || !row.front().chooses(verb)) return;
  auto chosen = std::find_if(row.begin(), row.end(), std::mem_fn(&Counter::knows_id));
  if (chosen == row.end() && asks(verb)) {
    chosen = std::find_if(row.begin(), row.end(), std::mem_fn(&Counter::admits));
    for (auto other = row.begin(); chosen == row.end() && other != row.end(); ++other) {
      row.front().wait_less(*other);
    }
  }
  if (chosen == row.end()) chosen = row.begin();
  for (auto other = row.begin(); other != row.end(); ++other) {
    if (other != chosen) other->pass_over();
  }
}

// Whether the verb may create a counter, so that NewKeyLimit bounds it.
constexpr bool creates(Verb verb) noexcept { return takes(verb) || counts_work(verb); }

// Whether a request is decided for the counters that a full store has. Work that is done is charged
// where it can be.
constexpr bool goes_on_without_new(Verb verb) noexcept { return asks(verb) || counts_work(verb); }

// Whether a verb that changes blocks has one to change, and a length that a block can have.
constexpr bool block_fits(Action action, const Charge& charge) noexcept {
  if (!changes_block(action.verb)) return true;
  const bool has_length = action.max_wait >= kMinPeriod && action.max_wait <= kMaxPeriod;
  return charge.block != nullptr && (has_length || action.verb == Verb::kUnblock);
}

// Whether a denial (kLimited) counts for the block of the charge. A reservation that is denied may
// still wait for its units, except with a bucket.
constexpr bool counts_denials(Verb verb, const Charge& charge) noexcept {
  if (charge.block == nullptr || !takes(verb)) return false;
  return verb != Verb::kReserve || charge.limit.state_kind() == StateKind::kBucket;
}

// Adds another charge on a counter to what those before ask: a cost, and whether they give it back.
// A sum beyond all limits stays beyond them.
constexpr void add_charge(const Charge& charge, std::uint64_t& cost, bool& gives_back) noexcept {
  if (charge.gives_back == gives_back) {
    if (__builtin_add_overflow(cost, charge.cost, &cost)) cost = ~std::uint64_t{0};
  } else if (charge.cost <= cost) {
    cost -= charge.cost;
  } else {
    cost = charge.cost - cost;
    gives_back = charge.gives_back;
  }
}

// Whether two charges of one counter have the same block, or none.
constexpr bool same_block(const Charge& a, const Charge& b) noexcept {
  if (a.block == b.block) return true;
  return a.block != nullptr && b.block != nullptr && *a.block == *b.block;
}

// Returns the least time until the hold of an id ends, of those that have one; 0 if none has.
inline Duration least_ends_after(std::span<const Decision> each) noexcept {
  Duration least{0};
  for (const Decision& d : each) {
    if (d.ends_after == Duration{0}) continue;
    least = least == Duration{0} ? d.ends_after : std::min(least, d.ends_after);
  }
  return least;
}

// Returns the answer to a request from the answers to its charges, at least one (see
// Store::apply): every store's last step. It reads and writes field by field; whole decisions just
// written in pieces would be slow to copy.
inline Decision combine(std::span<const Decision> each) noexcept {
  constexpr Duration kNone{-1};
  using Wait = std::optional<Duration>;
  const Decision* tightest = &each.front();
  Duration retry_after = kNone;
  Duration delay = kNone;
  bool never = false;
  bool blocked = false;
  bool starts_block = false;
  bool over = false;
  bool conflict = false;
  bool repeated = false;
  bool late = false;
  bool has_hold = false;
  for (const Decision& d : each) {
    if (d.passed_over) continue;
    repeated |= d.repeated;
    late |= d.late;
    has_hold |= d.ends_after != Duration{0};
    conflict |= d.reason == Reason::kConflict;
    never |= d.reason == Reason::kNever;
    blocked |= d.reason == Reason::kBlocked;
    starts_block |= d.starts_block;
    over |= d.reason == Reason::kOver;
    if (d.retry_after && *d.retry_after > retry_after) retry_after = *d.retry_after;
    if (d.delay && *d.delay > delay) delay = *d.delay;
    const bool tighter =
        d.allowed() == tightest->allowed() ? d.remaining < tightest->remaining : !d.allowed();
    if (tighter || tightest->passed_over) tightest = &d;
  }
  Reason reason = tightest->reason;
  if (over) reason = Reason::kOver;
  if (conflict) reason = Reason::kConflict;
  if (blocked) reason = Reason::kBlocked;
  if (never) reason = Reason::kNever;
  const bool allowed = tightest->allowed();
  const bool may_retry = retry_after != kNone && !never && !conflict;
  return {
      .outcome = tightest->outcome,
      .reason = reason,
      .starts_block = starts_block,
      .repeated = repeated && allowed,
      .late = late && allowed,
      .capacity = tightest->capacity,
      .remaining = tightest->remaining,
      .taken = tightest->taken,
      .spent = tightest->spent,
      .held = tightest->held,
      .reset_after = tightest->reset_after,
      .ends_after = has_hold && allowed ? least_ends_after(each) : Duration{0},
      .retry_after = may_retry ? Wait(retry_after) : std::nullopt,
      .delay = delay != kNone && allowed ? Wait(delay) : std::nullopt,
  };
}

// As combine() for a release, which has ended the permit if it was live in any of its counters.
inline Decision combine_released(std::span<const Decision> each) noexcept {
  Decision all = combine(each);
  const bool any = std::any_of(each.begin(), each.end(), std::mem_fn(&Decision::allowed));
  if (!any || all.allowed()) return all;
  all.outcome = Outcome::kAllowed;
  all.reason = Reason::kOk;
  return all;
}

}  // namespace sluice

namespace sluice::detail {

// What a failure policy answers in place of a store. It has no numbers but those by which the
// caller acts: a take of at most the cost takes the least cost of the request, and a reservation
// does not wait.
constexpr Decision fallback(Outcome outcome, Verb verb, std::uint64_t least_cost) noexcept {
  Decision answer{.outcome = outcome, .reason = Reason::kFallback};
  if (outcome != Outcome::kAllowed) return answer;
  if (verb == Verb::kReserve) answer.delay = Duration{0};
  if (verb == Verb::kTakeAtMost) {
    answer.taken = std::min(least_cost, kMaxAmount);
  }
  return answer;
}

}  // namespace sluice::detail

namespace sluice::core {

constexpr Reason reason_of(const Answer& answer) noexcept {
  if (answer.admitted) return answer.over ? Reason::kOver : Reason::kOk;
  if (answer.gone) return Reason::kGone;
  if (answer.conflict) return Reason::kConflict;
  if (answer.too_many) return Reason::kTooManyHolds;
  return answer.never ? Reason::kNever : Reason::kLimited;
}

// Makes a denial wait at most as long as another one.
constexpr void wait_less(const Answer& other, Answer& answer) noexcept {
  if (other.never || (!answer.never && answer.wait <= other.wait)) return;
  answer.never = false;
  answer.wait = other.wait;
}

// Returns the answer of a limit. Its caller has the object made where it is kept: a copy of fields
// just written would take longer than to write them.
constexpr Decision decision_of(const Limit& limit, const Answer& answer) noexcept {
  const bool may_retry = !answer.admitted && !answer.never && !answer.gone && !answer.conflict;
  using Wait = std::optional<Duration>;
  return {
      .outcome = answer.admitted ? Outcome::kAllowed : Outcome::kDenied,
      .reason = reason_of(answer),
      .repeated = answer.repeated,
      .late = answer.late,
      .capacity = limit.capacity(),
      .remaining = answer.remaining,
      .taken = answer.taken,
      .spent = answer.spent,
      .held = answer.held,
      .reset_after = Duration{answer.reset_after},
      .ends_after = Duration{answer.ends_after},
      .retry_after = may_retry ? Wait(Duration{answer.wait}) : std::nullopt,
      .delay = answer.delay != Answer::kNoDelay ? Wait(Duration{answer.delay}) : std::nullopt,
  };
}
inline void write(const Limit& limit, const Answer& answer, Decision& d) noexcept {
  ::new (static_cast<void*>(&d)) Decision(decision_of(limit, answer));
}

// Changes the answer of a limit whose key is blocked. `cost` is that of the charges.
inline void write(const BlockAnswer& block, std::uint64_t cost, Decision& d) noexcept {
  if (block.left == 0) return;
  d.remaining = 0;
  d.reset_after = std::max(d.reset_after, Duration{block.left});
  if (cost == 0 || d.reason == Reason::kNever) return;
  d.outcome = Outcome::kDenied;
  d.reason = Reason::kBlocked;
  d.starts_block = block.starts;
  d.taken = 0;
  d.retry_after = std::max(d.retry_after.value_or(Duration{0}), Duration{block.left});
  d.delay.reset();
}

}  // namespace sluice::core
