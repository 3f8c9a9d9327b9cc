#include "tests/oracle/budgets.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/oracle/counter.h"

namespace sluice_oracle {
namespace {

// Returns whether an amount spent at `a` still counts at `b`.
bool same_window(const Spec& spec, std::int64_t a, std::int64_t b) {
  if (spec.never) return true;
  if (spec.calendar) return window_start(*spec.calendar, a) == window_start(*spec.calendar, b);
  return a / spec.per_us == b / spec.per_us;
}

// Returns until when an id is remembered that has ended at `end`: a multiple of 2^20 us.
std::int64_t until_of(const Spec& spec, std::int64_t end) {
  const std::int64_t grid = std::int64_t{1} << 20;
  return (end + remember_us(spec) + grid - 1) / grid * grid;
}

// What an open hold has become when it ends with its ttl.
Ended expired(const Spec& spec, const Hold& hold) {
  Ended ended{.how = Ended::How::kExpired, .held = hold.units};
  ended.charged = on_expiry(spec) == OnExpiry::kCharge;
  ended.end = hold.end;
  ended.until = until_of(spec, hold.end);
  return ended;
}

Integer spent_of(const Budget& budget, const Counter& counter, std::int64_t instant) {
  const Spec& spec = counter.spec;
  Integer sum = same_window(spec, counter.last_change, instant) ? budget.spent : Integer(0);
  for (const auto& [id, hold] : budget.open) {
    const bool is_spent = hold.end <= instant && expired(spec, hold).charged;
    if (is_spent && same_window(spec, hold.end, instant)) sum += hold.units;
  }
  return std::min(sum, most_stored(spec));
}

Integer held_in(const Budget& budget, std::int64_t instant) {
  Integer sum = 0;
  for (const auto& [id, hold] : budget.open) {
    if (hold.end > instant) sum += hold.units;
  }
  return sum;
}

// Moves the holds that have ended to the ended ids, and forgets ids.
void bring_to(Budget& budget, const Counter& counter, std::int64_t instant) {
  budget.spent = spent_of(budget, counter, instant);
  for (const auto& [id, hold] : budget.open) {
    if (hold.end > instant) continue;
    const Ended ended = expired(counter.spec, hold);
    budget.known = std::max(budget.known, ended.until);
    budget.ended.insert_or_assign(id, ended);
  }
  std::erase_if(budget.open, [=](const auto& entry) { return entry.second.end <= instant; });
  if (budget.open.empty()) budget.latest = 0;
  for (auto& [id, ended] : budget.ended) {
    if (ended.how == Ended::How::kExpired) ended.until = until_of(counter.spec, ended.end);
  }
  std::erase_if(budget.ended, [=](const auto& entry) { return entry.second.until <= instant; });
}

// Returns the budget as a change at `instant` finds it.
Budget brought_to(const Counter& counter, std::int64_t instant) {
  Budget budget = std::get<Budget>(counter.state);
  bring_to(budget, counter, instant);
  return budget;
}

// Spends units, at most those that can be stored. Returns whether not all could be.
bool add(Budget& budget, const Counter& counter, const Integer& units) {
  const Integer room = most_stored(counter.spec) - budget.spent;
  budget.spent += std::min(units, room);
  return units > room;
}

void give_back(Budget& budget, const Integer& units) {
  budget.spent -= std::min(units, budget.spent);
}

void keep(Counter& counter, std::int64_t instant, Budget budget) {
  if (budget.open.empty()) budget.latest = 0;
  for (const auto& [id, ended] : budget.ended) {
    if (ended.how != Ended::How::kExpired) budget.known = std::max(budget.known, ended.until);
  }
  counter.state = std::move(budget);
  counter.last_change = instant;
}

template <typename Entries>
const typename Entries::mapped_type* find(const Entries& entries, const std::string& id) {
  const auto found = entries.find(id);
  return found == entries.end() ? nullptr : &found->second;
}

// Replaces what an expired hold spent by `actual`. What it spent in an earlier window stays there.
// Returns whether not all of it could be stored.
bool correct(Budget& budget, const Counter& counter, std::int64_t instant, const Ended& ended,
             const Integer& actual) {
  if (same_window(counter.spec, ended.end, instant)) {
    give_back(budget, *ended.held);
    return add(budget, counter, actual);
  }
  return add(budget, counter, std::max<Integer>(actual - *ended.held, 0));
}

}  // namespace

Rational consumed_of(const Budget& budget, const Counter& counter, std::int64_t instant) {
  return spent_of(budget, counter, instant) + held_in(budget, instant);
}

void take_from(Budget& budget, const Counter& counter, std::int64_t instant, const Integer& cost) {
  bring_to(budget, counter, instant);
  budget.spent += cost;
  if (budget.open.empty()) budget.latest = 0;
}

Rational refund_to(Budget& budget, const Counter& counter, std::int64_t instant,
                   const Integer& cost) {
  bring_to(budget, counter, instant);
  const Integer before = budget.spent;
  give_back(budget, cost);
  if (budget.open.empty()) budget.latest = 0;
  return before - budget.spent;
}

IdAnswer hold(const Counter& counter, std::int64_t instant, const IdCall& call) {
  const Budget budget = brought_to(counter, instant);
  if (const Hold* const open = find(budget.open, call.id)) {
    const bool is_same = open->units == call.units;
    return {.denied = !is_same, .repeated = is_same, .end = open->end};
  }
  const Ended* const ended = find(budget.ended, call.id);
  if (ended == nullptr) return {.is_new = true, .end = instant + call.ttl_us};
  const bool is_same = ended->held == call.units;  // never of an id that had no hold
  return {.denied = !is_same, .repeated = is_same, .end = instant};
}

IdAnswer take_by_id(Counter& counter, std::int64_t instant, const IdCall& call) {
  const Budget budget = brought_to(counter, instant);
  if (const Hold* const open = find(budget.open, call.id)) {
    return open->units == call.units ? settle(counter, instant, call) : IdAnswer{.denied = true};
  }
  const Ended* const ended = find(budget.ended, call.id);
  if (ended == nullptr) return {.is_new = true};
  const bool is_same = ended->how == Ended::How::kSettled && ended->spent == call.units &&
                       ended->held.value_or(call.units) == call.units;
  return {.denied = !is_same, .repeated = is_same, .was_over = ended->over};
}

void open(Counter& counter, std::int64_t instant, const IdCall& call) {
  Budget budget = brought_to(counter, instant);
  budget.open[call.id] = {call.units, instant + call.ttl_us};
  budget.latest = std::max(budget.latest, instant + call.ttl_us);
  keep(counter, instant, std::move(budget));
}

void spend(Counter& counter, std::int64_t instant, const IdCall& call) {
  Budget budget = brought_to(counter, instant);
  budget.spent += call.units;
  budget.ended[call.id] = {
      .held = call.units, .spent = call.units, .until = until_of(counter.spec, instant)};
  keep(counter, instant, std::move(budget));
}

IdAnswer settle(Counter& counter, std::int64_t instant, const IdCall& asked) {
  Budget budget = brought_to(counter, instant);
  const Integer most = most_stored(counter.spec);  // two amounts of a request may be more
  const IdCall call{asked.id, std::min(asked.units, most)};
  IdAnswer answer{.late = true, .settles = true};
  Ended ended{.spent = call.units, .until = until_of(counter.spec, instant)};
  if (const Hold* const open = find(budget.open, call.id)) {
    answer.late = false;
    ended.held = open->units;
    ended.until = until_of(counter.spec, open->end);
    budget.open.erase(call.id);
  }
  const Ended* const before = find(budget.ended, call.id);
  if (before != nullptr && before->how == Ended::How::kSettled) {
    const bool is_same = before->spent == call.units;
    return {.denied = !is_same,
            .repeated = is_same,
            .late = is_same && !before->held,
            .was_over = before->over};
  }
  if (before != nullptr) ended.held = before->held;
  answer.is_cut = before != nullptr && before->charged
                      ? correct(budget, counter, instant, *before, call.units)
                      : add(budget, counter, call.units);
  budget.ended[call.id] = std::move(ended);
  keep(counter, instant, std::move(budget));
  answer.is_cut = answer.is_cut || asked.units > most;
  return answer;
}

IdAnswer cancel(Counter& counter, std::int64_t instant, const IdCall& call) {
  Budget budget = brought_to(counter, instant);
  IdAnswer answer{.late = true, .settles = true};
  Ended ended{.how = Ended::How::kCancelled, .until = until_of(counter.spec, instant)};
  if (const Hold* const open = find(budget.open, call.id)) {
    answer.late = false;
    ended.held = open->units;
    ended.until = until_of(counter.spec, open->end);
    budget.open.erase(call.id);
  }
  if (const Ended* const before = find(budget.ended, call.id)) {
    if (before->how == Ended::How::kCancelled) {
      return {.repeated = true, .late = !before->held, .was_over = before->over};
    }
    if (before->how == Ended::How::kSettled) {
      const bool is_same = before->spent == 0;  // a settlement of nothing is a cancellation
      return {.denied = !is_same,
              .repeated = is_same,
              .late = is_same && !before->held,
              .was_over = before->over};
    }
    ended.held = before->held;
    if (before->charged) correct(budget, counter, instant, *before, 0);
  }
  budget.ended[call.id] = std::move(ended);
  keep(counter, instant, std::move(budget));
  return answer;
}

IdAnswer extend(Counter& counter, std::int64_t instant, const IdCall& call) {
  Budget budget = brought_to(counter, instant);
  const auto open = budget.open.find(call.id);
  if (open == budget.open.end()) return {.denied = true};
  open->second.end = instant + call.ttl_us;
  const std::int64_t end = open->second.end;
  budget.latest = std::max(budget.latest, end);
  keep(counter, instant, std::move(budget));
  return {.end = end};
}

void note_over(Counter& counter, const std::string& id) {
  std::get<Budget>(counter.state).ended.at(id).over = true;
}

bool knows_id(const Counter& counter, std::int64_t instant, const std::string& id) {
  const Budget budget = brought_to(counter, instant);
  return budget.open.contains(id) || budget.ended.contains(id);
}

Integer spent(const Counter& counter, std::int64_t instant) {
  return spent_of(std::get<Budget>(counter.state), counter, instant);
}

bool may_count_holds(const Counter& counter, std::int64_t instant, std::int64_t later) {
  if (!is_budget(counter.spec)) return false;
  const Budget budget = brought_to(counter, instant);
  if (budget.open.empty()) return false;
  if (later < budget.latest) return true;
  return on_expiry(counter.spec) == OnExpiry::kCharge &&
         same_window(counter.spec, budget.latest, later);
}

bool has_room_for_hold(const Counter& counter, std::int64_t instant) {
  return brought_to(counter, instant).open.size() < holds(counter.spec);
}

bool may_know_ids(const Counter& counter, std::int64_t instant, std::int64_t later) {
  if (!is_budget(counter.spec)) return false;
  const Budget budget = brought_to(counter, instant);
  const std::int64_t until = budget.open.empty() ? 0 : until_of(counter.spec, budget.latest);
  return later < std::max(until, budget.known);
}

}  // namespace sluice_oracle
