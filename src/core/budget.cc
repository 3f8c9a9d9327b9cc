#include "core/budget.h"

#include <algorithm>
#include <new>
#include <vector>

namespace sluice::core {
namespace {

// Returns the place at which the search for a name begins.
std::size_t home_of(const HoldName& name, std::size_t room) noexcept {
  return static_cast<std::size_t>(Wide{name.first} * room >> 64);
}

IdRecord with_rest(const IdRecord& record, IdKind kind, std::uint64_t rest) noexcept {
  return {record.name(), kind, record.amount(), rest};
}

Instant instant_of(Ticks at) noexcept { return Instant{Duration{at}}; }

LedgerKind kind_of(Verb verb, const NextBudget& next, bool was_open) noexcept {
  switch (next.change) {
    case NextBudget::Change::kOpen: return LedgerKind::kHold;
    case NextBudget::Change::kExtend: return LedgerKind::kExtend;
    case NextBudget::Change::kSettle:
      if (next.record.kind() == IdKind::kCancelled) return LedgerKind::kCancel;
      if (was_open) return LedgerKind::kSettle;
      if (verb == Verb::kSettle) return LedgerKind::kLate;
      break;
    case NextBudget::Change::kNumbers:
      if (verb == Verb::kReset) return LedgerKind::kReset;
      if (verb == Verb::kRefund) return LedgerKind::kRefund;
      break;
  }
  return verb == Verb::kCharge ? LedgerKind::kCharge : LedgerKind::kTake;
}

// Adds entries of one counter to a ledger, of which each begins where the one before it ended.
struct Recorder {
  const Limit& limit;
  std::span<const Ticks> bounds;
  LedgerEntry entry;
  Ledger& ledger;
  Ticks last;  // the instant of the entry before
  std::uint64_t spent;
  std::uint64_t held;

  Ticks window_start(Ticks at) const noexcept { return budget::window_start(limit, bounds, at); }
  // What is spent in the window of an instant.
  std::uint64_t spent_at(Ticks at) const noexcept { return last >= window_start(at) ? spent : 0; }
  void add(LedgerKind kind, Ticks at, std::uint64_t spent_after,
           std::uint64_t held_after) noexcept {
    entry.kind = kind;
    entry.at = instant_of(at);
    entry.window = instant_of(window_start(at));
    entry.spent = static_cast<std::int64_t>(spent_after) - static_cast<std::int64_t>(spent_at(at));
    entry.held = static_cast<std::int64_t>(held_after) - static_cast<std::int64_t>(held);
    entry.spent_after = spent = spent_after;
    entry.held_after = held = held_after;
    last = at;
    ledger.add(entry);
    entry.is_new = false;
  }
  void add_ended(const Budget& before, Ticks at) noexcept {
    std::span<const OpenHold> holds = before.holds;
    std::vector<OpenHold> ordered;
    try {
      ordered.assign(holds.begin(), holds.end());
      std::stable_sort(ordered.begin(), ordered.end(),
                       [](const OpenHold& a, const OpenHold& b) { return a.end < b.end; });
      holds = ordered;
    } catch (const std::bad_alloc&) {
      // They are reported in another order.
    }
    const bool charges = limit.on_expiry() == OnExpiry::kCharge;
    for (const OpenHold& hold : holds) {
      if (hold.end > at) continue;
      const std::uint64_t cost = before.cost(hold);
      entry.hash = before.records[hold.record].name().bytes();
      add(charges ? LedgerKind::kCharged : LedgerKind::kReleased, hold.end,
          charges ? budget::plus(spent_at(hold.end), cost) : spent_at(hold.end), held - cost);
    }
  }
};

}  // namespace

void budget::record(Verb verb, const Limit& limit, const Budget& before, const NextBudget& next,
                    Ticks at, LedgerEntry entry, Ledger& ledger) noexcept {
  entry.limit = limit.limit();
  entry.on_expiry = limit.on_expiry();
  Recorder recorder{limit, before.bounds, entry, ledger, before.last, before.spent, before.held};
  recorder.entry.id = {};  // of the holds that have ended
  if (!before.holds.empty() && before.first <= at) recorder.add_ended(before, at);
  const bool was_open = before.found != nullptr && before.found->kind() == IdKind::kOpen &&
                        before.holds[before.found->rest()].end > at;
  recorder.entry.hash.reset();
  recorder.entry.id = entry.id;
  if (next.change != NextBudget::Change::kNumbers) recorder.entry.hash = next.record.name().bytes();
  recorder.entry.ends = instant_of(next.end);
  recorder.add(kind_of(verb, next, was_open), at, next.spent, next.held);
}

Budget BudgetBuffer::view(const PermitId* asked) noexcept {
  return {.last = last,
          .spent = spent,
          .held = held,
          .first = first,
          .latest = latest,
          .known = known,
          .holds = {hold_begin(), holds},
          .records = record_begin(),
          .asked = asked,
          .found = asked != nullptr && record_room > 0 ? &place_for(HoldName(*asked)) : nullptr};
}

// Returns the first record from a name's home on for which `is` is true. There must be one.
template <typename Is>
IdRecord& BudgetBuffer::search(const HoldName& name, Is is) noexcept {
  IdRecord* const begin = record_begin();
  IdRecord* const end = begin + record_room;
  IdRecord* place = begin + home_of(name, record_room);
  while (!is(*place)) {
    if (++place == end) place = begin;
  }
  return *place;
}

// Returns the record of a name, or the empty one at its place.
IdRecord& BudgetBuffer::place_for(const HoldName& name) noexcept {
  return search(name, [&](const IdRecord& one) { return one.is_of(name) || one.is_empty(); });
}

// Puts an absent record into its place, whose index its hold has.
inline void BudgetBuffer::move(const IdRecord& record) noexcept {
  IdRecord& place = search(record.name(), [](const IdRecord& one) { return one.is_empty(); });
  place = record;
  if (record.kind() != IdKind::kOpen) return;
  hold_begin()[record.rest()].record = static_cast<std::uint32_t>(&place - record_begin());
}

void BudgetBuffer::copy(BudgetBuffer& from) noexcept {
  last = from.last;
  spent = from.spent;
  held = from.held;
  first = from.first;
  latest = from.latest;
  known = from.known;
  known_to = from.known_to;
  records = from.records;
  holds = from.holds;
  std::copy_n(from.hold_begin(), holds, hold_begin());
  for (const IdRecord& record : std::span(from.record_begin(), from.record_room)) {
    if (!record.is_empty()) move(record);
  }
}

void BudgetBuffer::forget(const Limit& limit, Ticks at) noexcept {
  const auto now = static_cast<std::uint32_t>(at >> Forgotten::kShift);
  if (now < known_to || record_room == 0) return;
  known_to = Forgotten::kNever;
  IdRecord* const begin = record_begin();
  std::size_t index = 0;
  while (!begin[index].is_empty()) ++index;
  // Behind a place that becomes empty, each record up to the next empty one moves to the first
  // place that is empty from its home on.
  bool moves = false;
  for (std::size_t left = record_room; left > 0; --left) {
    if (++index == record_room) index = 0;
    const IdRecord record = begin[index];
    if (record.is_empty()) {
      moves = false;
      continue;
    }
    const std::uint32_t until =
        record.kind() == IdKind::kOpen ? Forgotten::kNever : budget::known_until(record, limit);
    if (Forgotten(until).is_past(at)) {
      begin[index] = {};
      --records;
      moves = true;
      continue;
    }
    known_to = std::min(known_to, until);
    if (moves) {
      begin[index] = {};
      move(record);
    }
  }
}

void BudgetBuffer::add(const IdRecord& record, Ticks end) noexcept {
  IdRecord& place = place_for(record.name());
  ++records;
  if (record.kind() == IdKind::kOpen) return open(place, record, end);
  put_ended(place, record);
}

// Puts a record without an open hold into its place.
void BudgetBuffer::put_ended(IdRecord& place, const IdRecord& record) noexcept {
  place = record;
  const std::uint64_t rest = record.rest();
  known_to =
      std::min(known_to, static_cast<std::uint32_t>(
                             budget::is_decided(record.kind()) ? rest : rest >> Forgotten::kShift));
}

// Puts a hold and its record into their places.
void BudgetBuffer::open(IdRecord& record, const IdRecord& next, Ticks end) noexcept {
  first = holds == 0 ? end : std::min(first, end);
  record = with_rest(next, IdKind::kOpen, holds);
  hold_begin()[holds++] = {end, static_cast<std::uint32_t>(&record - record_begin())};
}

// Takes a hold out, whose record becomes `ended`.
void BudgetBuffer::close(std::size_t index, const IdRecord& ended) noexcept {
  OpenHold* const all = hold_begin();
  put_ended(record_begin()[all[index].record], ended);
  const OpenHold moved = all[--holds];
  if (index == holds) return;
  all[index] = moved;
  IdRecord& record = record_begin()[moved.record];
  record = with_rest(record, IdKind::kOpen, index);
}

// Ends the holds that have ended with their time.
void BudgetBuffer::expire(OnExpiry on_expiry, Ticks at) noexcept {
  const IdKind kind = on_expiry == OnExpiry::kCharge ? IdKind::kCharged : IdKind::kReleased;
  const OpenHold* const all = hold_begin();
  first = 0;
  for (std::size_t i = 0; i < holds;) {
    if (all[i].end <= at) {
      const IdRecord& record = record_begin()[all[i].record];
      close(i, with_rest(record, kind, static_cast<std::uint64_t>(all[i].end)));
      continue;
    }
    first = i == 0 ? all[i].end : std::min(first, all[i].end);
    ++i;
  }
}

void BudgetBuffer::write(const NextBudget& next, Ticks at) noexcept {
  first = next.first;
  if (next.expires) expire(next.on_expiry, at);
  last = at;
  spent = next.spent;
  held = next.held;
  latest = next.latest;
  known = next.known;
  if (next.change == NextBudget::Change::kNumbers) return;
  IdRecord& record = next.place != nullptr ? record_begin()[next.place - record_begin()]
                                           : place_for(next.record.name());
  if (record.is_empty()) ++records;
  switch (next.change) {
    case NextBudget::Change::kNumbers: break;
    case NextBudget::Change::kOpen: return open(record, next.record, next.end);
    case NextBudget::Change::kExtend:
      hold_begin()[record.rest()].end = next.end;
      first = std::min(first, next.end);
      break;
    case NextBudget::Change::kSettle:
      if (record.kind() == IdKind::kOpen) return close(record.rest(), next.record);
      put_ended(record, next.record);
      break;
  }
}

}  // namespace sluice::core
