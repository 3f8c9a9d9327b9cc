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

// Whether a record of no open hold still counts.
bool is_known(const IdRecord& record, const Limit& limit, Ticks at) noexcept {
  const bool is_decided = record.kind() == IdKind::kSettled || record.kind() == IdKind::kCancelled;
  const std::uint32_t until = is_decided
                                  ? static_cast<std::uint32_t>(record.rest())
                                  : budget::known_until(limit, static_cast<Ticks>(record.rest()));
  return !Forgotten(until).is_past(at);
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
  LedgerEntry entry;
  Ledger& ledger;
  Ticks last;  // the instant of the entry before
  std::uint64_t spent;
  std::uint64_t held;

  // What is spent in the window of an instant.
  std::uint64_t spent_at(Ticks at) const noexcept {
    return last >= budget::window_start(limit, at) ? spent : 0;
  }
  void add(LedgerKind kind, Ticks at, std::uint64_t spent_after,
           std::uint64_t held_after) noexcept {
    entry.kind = kind;
    entry.at = instant_of(at);
    entry.window = instant_of(budget::window_start(limit, at));
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
      std::sort(ordered.begin(), ordered.end(),
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
  Recorder recorder{limit, entry, ledger, before.last, before.spent, before.held};
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
          .found = asked != nullptr ? find(HoldName(*asked)) : nullptr};
}

IdRecord* BudgetBuffer::find(const HoldName& name) noexcept {
  if (record_room == 0) return nullptr;
  IdRecord& place = place_for(name);
  return place.kind() == IdKind::kUnknown ? nullptr : &place;
}

// Returns the record of a name, or the empty one at its place. There must be one.
IdRecord& BudgetBuffer::place_for(const HoldName& name) noexcept {
  IdRecord* const begin = record_begin();
  std::size_t at = home_of(name, record_room);
  while (begin[at].kind() != IdKind::kUnknown && !(begin[at].name() == name)) {
    at = at + 1 == record_room ? 0 : at + 1;
  }
  return begin[at];
}

void BudgetBuffer::copy(BudgetBuffer& from) noexcept {
  last = from.last;
  spent = from.spent;
  held = from.held;
  first = from.first;
  latest = from.latest;
  known = from.known;
  looked = from.looked;
  for (const IdRecord& record : std::span(from.record_begin(), from.record_room)) {
    if (record.kind() == IdKind::kUnknown) continue;
    const bool is_open = record.kind() == IdKind::kOpen;
    add(record, is_open ? from.hold_begin()[record.rest()].end : 0);
  }
}

void BudgetBuffer::forget(const Limit& limit, Ticks at) noexcept {
  const auto now = static_cast<std::uint32_t>(at >> Forgotten::kShift);
  if (now == looked) return;
  looked = now;
  for (std::size_t i = 0; i < record_room;) {
    const IdRecord& record = record_begin()[i];
    const bool stays = record.kind() == IdKind::kUnknown || record.kind() == IdKind::kOpen ||
                       is_known(record, limit, at);
    if (stays) {
      ++i;
    } else {
      erase(i);  // another record may be in its place then
    }
  }
}

// Empties a place, and moves the records back that would be in it or before it.
void BudgetBuffer::erase(std::size_t index) noexcept {
  IdRecord* const all = record_begin();
  const auto distance = [this](std::size_t from, std::size_t to) {
    return to >= from ? to - from : to + record_room - from;
  };
  std::size_t next = index;
  for (;;) {
    next = next + 1 == record_room ? 0 : next + 1;
    if (all[next].kind() == IdKind::kUnknown) break;
    const std::size_t home = home_of(all[next].name(), record_room);
    if (distance(home, next) < distance(index, next)) continue;
    all[index] = all[next];
    if (all[index].kind() == IdKind::kOpen) {
      hold_begin()[all[index].rest()].record = static_cast<std::uint32_t>(index);
    }
    index = next;
  }
  all[index] = {};
  --records;
}

void BudgetBuffer::add(const IdRecord& record, Ticks end) noexcept {
  IdRecord& place = place_for(record.name());
  if (place.kind() == IdKind::kUnknown) ++records;
  if (record.kind() == IdKind::kOpen) return open(place, record, end);
  place = record;
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
  record_begin()[all[index].record] = ended;
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
  IdRecord& record = place_for(next.record.name());
  if (record.kind() == IdKind::kUnknown) ++records;
  switch (next.change) {
    case NextBudget::Change::kNumbers: break;
    case NextBudget::Change::kOpen: return open(record, next.record, next.end);
    case NextBudget::Change::kExtend:
      hold_begin()[record.rest()].end = next.end;
      first = std::min(first, next.end);
      break;
    case NextBudget::Change::kSettle:
      if (record.kind() == IdKind::kOpen) return close(record.rest(), next.record);
      record = next.record;
      break;
  }
}

}  // namespace sluice::core
