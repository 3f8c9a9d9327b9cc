#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/step.h"
#include "sluice/ledger.h"
#include "sluice/permit_id.h"

namespace sluice::core {

// The first 80 bits of the name of a hold, by which a counter knows it.
struct HoldName {
  std::uint64_t first = 0;
  std::uint16_t rest = 0;

  constexpr HoldName() = default;
  constexpr explicit HoldName(const PermitId& id) noexcept {
    static_assert(std::endian::native == std::endian::little);
    const auto words = std::bit_cast<std::array<std::uint32_t, 3>>(id);
    first = words[0] | std::uint64_t{words[1]} << 32;
    rest = static_cast<std::uint16_t>(words[2]);
  }

  constexpr IdHash bytes() const noexcept {
    IdHash out{};
    for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<std::uint8_t>(first >> 8 * i);
    out[8] = static_cast<std::uint8_t>(rest);
    out[9] = static_cast<std::uint8_t>(rest >> 8);
    return out;
  }
  friend constexpr bool operator==(const HoldName&, const HoldName&) = default;
};

// What a counter knows of an id. kCharged, kReleased: its hold has ended with its time.
enum class IdKind : std::uint8_t { kUnknown, kOpen, kSettled, kCharged, kReleased, kCancelled };

// An id in 24 bytes: its name, its kind and an amount; and 56 bits more: of kOpen the index of its
// hold, of kSettled until when it is known, the check of its cost and whether it went beyond the
// limit, else the end of its hold.
class IdRecord {
 public:
  constexpr IdRecord() = default;
  constexpr IdRecord(const HoldName& name, IdKind kind, std::uint64_t amount,
                     std::uint64_t rest) noexcept
      : first_(name.first),
        amount_(amount | static_cast<std::uint64_t>(kind) << kAmountBits | rest >> 48 << 56),
        rest_(name.rest | rest << 16) {}

  constexpr HoldName name() const noexcept {
    HoldName name;
    name.first = first_;
    name.rest = static_cast<std::uint16_t>(rest_);
    return name;
  }
  bool is_empty() const noexcept { return (amount_ >> kAmountBits & 7) == 0; }
  bool is_of(const HoldName& other) const noexcept {
    return first_ == other.first && static_cast<std::uint16_t>(rest_) == other.rest;
  }
  constexpr IdKind kind() const noexcept { return static_cast<IdKind>(amount_ >> kAmountBits & 7); }
  constexpr std::uint64_t amount() const noexcept { return amount_ & kMaxAmount; }
  constexpr std::uint64_t rest() const noexcept { return rest_ >> 16 | amount_ >> 56 << 48; }

 private:
  static constexpr unsigned kAmountBits = 53;

  std::uint64_t first_ = 0;
  std::uint64_t amount_ = 0;
  std::uint64_t rest_ = 0;
};
static_assert(sizeof(IdRecord) == 24);

// A hold that has not been settled.
struct OpenHold {
  Ticks end = 0;
  std::uint32_t record = 0;  // the place of its id
};
static_assert(sizeof(OpenHold) == 16);

// The first ends of holds from which a denied charge fits, where the holds are not in memory: of
// holds whose units suffice, of those if nothing were spent, and of as many holds as are too many.
struct BudgetEnds {
  Ticks by_all = 0, by_held = 0, by_count = 0;
};

// A view of a counter of a budget in the caller's memory.
struct Budget {
  Ticks last = 0;           // of the last change
  std::uint64_t spent = 0;  // in the window of the last change
  std::uint64_t held = 0;   // by all open holds
  Ticks first = 0;          // no hold ends before; if there is one
  Ticks latest = 0;         // the latest end of a hold since there was none
  std::uint32_t known = 0;  // until when an id is known, as Forgotten::multiple()
  std::span<const OpenHold> holds = {};
  const IdRecord* records = nullptr;
  const PermitId* asked = nullptr;   // the id of the request
  const IdRecord* found = nullptr;   // its record, or the place for one; null: neither
  const BudgetEnds* ends = nullptr;  // instead of `holds`
  std::size_t unread = 0;            // open holds that are not in `holds`: none has ended
  // The bounds of windows that follow each other, if only another process knows those of the limit.
  std::span<const Ticks> bounds = {};

  constexpr std::uint64_t cost(const OpenHold& hold) const noexcept {
    return records[hold.record].amount();
  }
};

// The next state, as BudgetBuffer::write() makes it.
struct NextBudget {
  enum class Change : std::uint8_t {
    kNumbers,  // of none of its ids
    kOpen,     // the id has a hold until `end`
    kExtend,   // the hold of the id ends at `end`
    kSettle,   // the id is settled: `record`
  };

  Change change = Change::kNumbers;
  bool expires = false;  // holds that have ended leave
  OnExpiry on_expiry = OnExpiry::kCharge;
  bool knows_id = false;  // the counter knew the id that the request is about
  std::uint32_t known = 0;
  std::uint64_t spent = 0;
  std::uint64_t held = 0;
  Ticks first = 0;  // unless it expires
  Ticks latest = 0;
  Ticks end = 0;
  IdRecord record = {};
  const IdRecord* place = nullptr;  // Budget::found; null after the ids have moved
  Forgotten forgotten = {};
};

// A counter of a budget in one piece of the caller's memory: this header, a table of ids, then the
// open holds. Plain memory without a destructor.
struct BudgetBuffer {
  Ticks last = 0;
  std::uint64_t spent = 0;
  std::uint64_t held = 0;
  Ticks first = 0;
  Ticks latest = 0;
  std::uint32_t known = 0;
  std::uint32_t record_room = 0;
  std::uint32_t records = 0;  // in use, also by ids that are not known any more
  std::uint32_t hold_room = 0;
  std::uint32_t holds = 0;
  std::uint32_t known_to = Forgotten::kNever;  // all ids are known until then, at least

  static std::size_t bytes_for(std::size_t records, std::size_t holds) noexcept {
    return sizeof(BudgetBuffer) + records * sizeof(IdRecord) + holds * sizeof(OpenHold);
  }
  std::size_t bytes() const noexcept { return bytes_for(record_room, hold_room); }
  // Returns how many records need how much room: a table is filled to seven eighths.
  static std::size_t room_for(std::size_t records) noexcept {
    return records == 0 ? 0 : records + ceil_div(records, std::size_t{7});
  }

  IdRecord* record_begin() noexcept { return reinterpret_cast<IdRecord*>(this + 1); }
  OpenHold* hold_begin() noexcept {
    return reinterpret_cast<OpenHold*>(record_begin() + record_room);
  }
  // `asked` is the id of the request, or null.
  Budget view(const PermitId* asked) noexcept;

  // Copies the ids and the open holds. There must be room for them.
  void copy(BudgetBuffer& from) noexcept;
  // Drops the ids that are not known at `at`. Looks at all if there may be one.
  void forget(const Limit& limit, Ticks at) noexcept;
  // Whether write() has room.
  bool has_room(const NextBudget& next) const noexcept {
    if (next.change == NextBudget::Change::kNumbers) return true;
    const bool adds = next.place == nullptr || next.place->is_empty();
    const bool opens = next.change == NextBudget::Change::kOpen;
    return (!adds || room_for(std::size_t{records} + 1) <= record_room) &&
           (!opens || holds < hold_room);
  }
  // Makes the next state, which was decided at `at`. There must be room for it.
  void write(const NextBudget& next, Ticks at) noexcept;
  bool contains(const HoldName& name) noexcept {
    return record_room > 0 && !place_for(name).is_empty();
  }
  // Adds an absent id, whose hold has this end if it is open. There must be room for it.
  void add(const IdRecord& record, Ticks end) noexcept;

 private:
  IdRecord& place_for(const HoldName& name) noexcept;
  void move(const IdRecord& record) noexcept;
  template <typename Is>
  IdRecord& search(const HoldName& name, Is is) noexcept;
  void open(IdRecord& record, const IdRecord& next, Ticks end) noexcept;
  void close(std::size_t index, const IdRecord& ended) noexcept;
  void put_ended(IdRecord& place, const IdRecord& record) noexcept;
  void expire(OnExpiry on_expiry, Ticks at) noexcept;
};
static_assert(sizeof(BudgetBuffer) == 64);

}  // namespace sluice::core

namespace sluice::core::budget {

// At most L units spent in a window of the clock or the calendar, where open holds count as spent.
// A hold keeps its units under an id until it is settled with what was really used, or until its
// end. Ids that have ended are known for some time, so that a repeated call changes nothing.

constexpr Ticks kNone = std::numeric_limits<Ticks>::max();

// Returns the start of the window that contains an instant, and the end of the one that contains
// another.
inline Ticks window_start(const Limit& limit, Ticks at) noexcept {
  if (limit.calendar() == nullptr) return at - at % limit.period().count();
  return limit.calendar()->window_at(Instant{Duration{at}}).start.time_since_epoch().count();
}
inline Ticks window_end(const Limit& limit, Ticks at) noexcept {
  if (limit.calendar() == nullptr) {
    return at - at % limit.period().count() + limit.period().count();
  }
  const Instant in = std::min(Instant{Duration{at}}, kLastInstant);
  return limit.calendar()->window_at(in).end.time_since_epoch().count();
}
inline Ticks window_start(const Limit& limit, std::span<const Ticks> bounds, Ticks at) noexcept {
  if (bounds.empty()) return window_start(limit, at);
  const auto later = std::upper_bound(bounds.begin(), bounds.end(), at);
  return later == bounds.begin() ? *later : *(later - 1);
}
inline Ticks window_end(const Limit& limit, std::span<const Ticks> bounds, Ticks at) noexcept {
  if (bounds.empty()) return window_end(limit, at);
  const auto later = std::upper_bound(bounds.begin(), bounds.end(), at);
  return later == bounds.end() ? bounds.back() : *later;
}

// The multiple from which on an id that ended at `end` is not known any more.
inline std::uint32_t known_until(const Limit& limit, Ticks end) noexcept {
  return Forgotten::after(end + limit.remember().count()).multiple();
}

// A cost in 16 bits, by which most wrong costs of an id that is settled are found.
constexpr std::uint64_t kAnyCost = 0xFFFF;
// A prime below it, so that large costs near a power of two differ from small ones.
constexpr std::uint64_t kCheckModulus = 65521;
constexpr std::uint64_t check_of(std::uint64_t cost) noexcept { return cost % kCheckModulus; }
// In the rest of an id that is settled: the settlement went beyond the limit.
constexpr std::uint64_t kWasOver = std::uint64_t{1} << 48;

constexpr std::uint64_t plus(std::uint64_t spent, std::uint64_t cost) noexcept {
  return cost > kMaxAmount - spent ? kMaxAmount : spent + cost;
}
constexpr std::uint64_t minus(std::uint64_t spent, std::uint64_t cost) noexcept {
  return spent - std::min(spent, cost);
}

// A counter at the instant of a decision: holds that have ended are out of it.
struct Live {
  Ticks at = 0;
  Ticks start = 0;  // of the window
  std::uint64_t spent = 0;
  std::uint64_t held = 0;
  std::size_t open = 0;
  Ticks first = 0;
  Ticks latest = 0;
  std::uint32_t known = 0;
  bool expires = false;  // holds that are in the state

  std::uint64_t used() const noexcept { return spent + held; }
};

// Cost: constant, unless a hold has perhaps ended since the last change.
inline Live advance(const Limit& limit, const Budget& budget, Ticks now) noexcept {
  Live live{.at = effective(now, budget.last)};
  live.start = window_start(limit, budget.bounds, live.at);
  live.spent = budget.last >= live.start ? budget.spent : 0;
  live.held = budget.held;
  live.open = budget.holds.size() + budget.unread;
  live.first = budget.first;
  live.latest = budget.latest;
  live.known = budget.known;
  if (live.open == 0 || budget.first > live.at) return live;
  live.first = kNone;
  for (const OpenHold& hold : budget.holds) {
    if (hold.end > live.at) {
      live.first = std::min(live.first, hold.end);
      continue;
    }
    const std::uint64_t cost = budget.cost(hold);
    live.expires = true;
    live.held -= cost;
    --live.open;
    live.known = std::max(live.known, known_until(limit, hold.end));
    if (limit.on_expiry() == OnExpiry::kCharge && hold.end >= live.start) {
      live.spent = plus(live.spent, cost);
    }
  }
  if (live.open == 0) live.latest = 0;
  return live;
}

inline Numbers describe(const Limit& limit, std::span<const Ticks> bounds,
                        const Live& live) noexcept {
  const std::uint64_t used = live.used();
  Numbers numbers{.remaining = used < limit.capacity() ? limit.capacity() - used : 0,
                  .spent = live.spent,
                  .held = live.held};
  const bool charges = limit.on_expiry() == OnExpiry::kCharge;
  Ticks end = live.at;
  if (live.open > 0) end = charges ? window_end(limit, bounds, live.latest) : live.latest;
  if (live.spent > 0) end = std::max(end, window_end(limit, bounds, live.at));
  numbers.reset_after = end - live.at;
  return numbers;
}

// Returns the least end of an open hold until which holds of this weight have ended.
template <typename Weight>
Ticks least_end(const Budget& budget, Ticks at, std::uint64_t needed, Weight weight) noexcept {
  Ticks before = at;
  Ticks end = budget.latest;
  while (end - before > 1) {
    const Ticks middle = before + (end - before) / 2;
    std::uint64_t ended = 0;
    for (const OpenHold& hold : budget.holds) {
      if (hold.end > at && hold.end <= middle) ended += weight(hold);
    }
    (ended >= needed ? end : before) = middle;
  }
  return end;
}

// Returns the first instant at which a cost that does not fit now fits if nothing else arrives, or
// kNone.
inline Ticks fits_from(const Limit& limit, const Budget& budget, const Live& live,
                       std::uint64_t cost) noexcept {
  const std::uint64_t capacity = limit.capacity();
  const bool charges = limit.on_expiry() == OnExpiry::kCharge;
  const auto end_of = [&](std::uint64_t units, Ticks known) {
    if (budget.ends != nullptr) return known;
    return least_end(budget, live.at, units, [&](const OpenHold& one) { return budget.cost(one); });
  };
  const BudgetEnds ends = budget.ends != nullptr ? *budget.ends : BudgetEnds{};
  Ticks from = kNone;
  if (!charges && live.spent + cost <= capacity) {
    from = end_of(live.used() + cost - capacity, ends.by_all);
  }
  if (limit.period() == kNeverEnds) return from;
  const std::uint64_t beyond = live.held + cost > capacity ? live.held + cost - capacity : 0;
  const Ticks ended = beyond == 0 ? live.at : end_of(beyond, ends.by_held);
  const std::span bounds = budget.bounds;
  return std::min(from, charges ? window_end(limit, bounds, ended)
                                : std::max(window_end(limit, bounds, live.at), ended));
}

// Whether the record of an ended id says until when it is known, instead of when its hold ended.
constexpr bool is_decided(IdKind kind) noexcept {
  return kind == IdKind::kSettled || kind == IdKind::kCancelled;
}

// What a step knows: its arguments, the counter at the instant, and the id of the request.
struct Asked {
  const Limit& limit;
  const Budget& budget;
  Forgotten forgotten;
  Live live;
  HoldName name = {};
  IdKind kind = IdKind::kUnknown;
  std::uint64_t amount = 0;  // of the id
  Ticks end = 0;             // of its hold, unless it is settled
  std::uint64_t check = kAnyCost;
  bool was_over = false;

  bool is_decided() const noexcept { return budget::is_decided(kind); }
  // Reads the rest of the record of an id that is settled or cancelled.
  void read_decided(std::uint64_t rest) noexcept {
    check = rest >> 32 & 0xFFFF;
    was_over = (rest & kWasOver) != 0;
  }
  // Whether the id was held or taken with the cost.
  bool had_cost(std::uint64_t cost) const noexcept {
    return is_decided() ? check == check_of(cost) : amount == cost;
  }
};

inline std::uint32_t known_until(const IdRecord& record, const Limit& limit) noexcept {
  return is_decided(record.kind()) ? static_cast<std::uint32_t>(record.rest())
                                   : known_until(limit, static_cast<Ticks>(record.rest()));
}
// Whether a record of no open hold still counts.
inline bool is_known(const IdRecord& record, const Limit& limit, Ticks at) noexcept {
  return !Forgotten(known_until(record, limit)).is_past(at);
}

// Reads the record of the request's id, as it counts at the instant.
inline void find_id(Asked& asked) noexcept {
  if (asked.budget.asked == nullptr) return;
  asked.name = HoldName(*asked.budget.asked);
  if (asked.budget.found == nullptr) return;
  const IdRecord& record = *asked.budget.found;
  std::uint32_t until = 0;
  asked.kind = record.kind();
  if (asked.kind == IdKind::kUnknown) return;
  asked.amount = record.amount();
  if (asked.is_decided()) {
    until = static_cast<std::uint32_t>(record.rest());
    asked.read_decided(record.rest());
  } else {
    const bool is_open = asked.kind == IdKind::kOpen;
    asked.end = is_open ? asked.budget.holds[record.rest()].end : static_cast<Ticks>(record.rest());
    if (is_open && asked.end > asked.live.at) return;
    if (is_open) {
      const bool charges = asked.limit.on_expiry() == OnExpiry::kCharge;
      asked.kind = charges ? IdKind::kCharged : IdKind::kReleased;
    }
    until = known_until(asked.limit, asked.end);
  }
  if (Forgotten(until).is_past(asked.live.at)) asked.kind = IdKind::kUnknown;
}

using Made = Step<NextBudget>;

// A step that changes nothing.
inline Made keep(const Asked& asked, const Answer& quote) noexcept {
  Made step{{quote, describe(asked.limit, asked.budget.bounds, asked.live)},
            Change::kNone,
            asked.live.at,
            {}};
  asked.forgotten.end(asked.live.at, step.answer);
  return step;
}

// A step to the counter `next`.
inline Made make(const Asked& asked, const Live& next) noexcept {
  const Limit& limit = asked.limit;
  Made step{{admitted(), describe(limit, asked.budget.bounds, next)},
            Change::kWrite,
            next.at,
            {.expires = next.expires,
             .on_expiry = limit.on_expiry(),
             .known = next.known,
             .spent = next.spent,
             .held = next.held,
             .first = next.first,
             .latest = next.latest}};
  const Ticks known = next.open > 0 ? next.latest + limit.remember().count() : 0;
  const Forgotten after = Forgotten::after(std::max(next.at + step.answer.reset_after, known));
  step.next.forgotten = Forgotten(std::max(after.multiple(), next.known));
  return step;
}

// A step to the counter `next` that changes the id, whose hold ends at `end` if it is open.
inline Made make(const Asked& asked, const Live& next, NextBudget::Change change,
                 const IdRecord& record, Ticks end = 0) noexcept {
  Made step = make(asked, next);
  step.next.change = change;
  step.next.end = end;
  step.next.record = record;
  step.next.place = asked.budget.found;
  return step;
}

// Whether a cost can be spent or held.
inline bool fits(const Asked& asked, std::uint64_t cost) noexcept {
  return cost == 0 || asked.live.used() + std::min(cost, kMaxAmount + 1) <= asked.limit.capacity();
}
// Quotes a cost that is to be spent or held.
inline Answer quote(const Asked& asked, std::uint64_t cost) noexcept {
  if (fits(asked, cost)) return admitted();
  if (cost > asked.limit.capacity()) return never();
  const Ticks from =
      std::min(fits_from(asked.limit, asked.budget, asked.live, cost), asked.forgotten.from());
  if (from == kNone) return never();
  return denied_for(static_cast<std::uint64_t>(from - asked.live.at));
}

inline Made repeat(const Asked& asked) noexcept {
  Made step = keep(asked, admitted());
  step.answer.repeated = true;
  if (asked.kind == IdKind::kOpen) step.answer.ends_after = asked.end - asked.live.at;
  return step;
}
// As the first answer to a settlement or a cancellation: late without a hold.
inline Made repeat_end(const Asked& asked) noexcept {
  Made step = repeat(asked);
  step.answer.late = asked.check == kAnyCost;
  step.answer.over = asked.was_over;
  return step;
}
inline Made conflict(const Asked& asked) noexcept {
  Made step = keep(asked, {});
  step.answer.conflict = true;
  return step;
}

// Ends the id: `spent` counts from now on, with `amount` of it; its hold was of this cost.
inline Made end_with(const Asked& asked, std::uint64_t spent, std::uint64_t amount,
                     std::uint64_t check, Ticks end) noexcept {
  Live next = asked.live;
  next.spent = spent;
  if (asked.kind == IdKind::kOpen) {
    next.held -= asked.amount;
    if (--next.open == 0) next.latest = 0;
  }
  const std::uint32_t until = known_until(asked.limit, end);
  next.known = std::max(next.known, until);
  return make(asked, next, NextBudget::Change::kSettle,
              {asked.name, IdKind::kSettled, amount, until | check << 32});
}

// Settles an id that is not settled yet.
inline Made settle_first(const Asked& asked, std::uint64_t actual, bool is_cut) noexcept {
  const Live& live = asked.live;
  std::uint64_t before = live.spent;
  std::uint64_t adds = actual;
  std::uint64_t check = check_of(asked.amount);
  Ticks end = live.at;
  switch (asked.kind) {
    case IdKind::kOpen: end = asked.end; break;
    case IdKind::kCharged:
      // The call counts once. If the window of the hold's end is over, its cost stays in that one.
      if (asked.end >= live.start) {
        before = minus(before, asked.amount);
      } else {
        adds = minus(actual, asked.amount);
      }
      break;
    case IdKind::kSettled:
    case IdKind::kReleased: break;
    case IdKind::kCancelled: check = asked.check; break;
    case IdKind::kUnknown: check = kAnyCost; break;
  }
  Made step = end_with(asked, plus(before, adds), actual, check, end);
  step.answer.over = is_cut || adds > kMaxAmount - before ||
                     step.next.spent + step.next.held > asked.limit.capacity();
  if (step.answer.over) {
    const IdRecord& record = step.next.record;
    step.next.record = {asked.name, IdKind::kSettled, actual, record.rest() | kWasOver};
  }
  step.answer.late = asked.kind != IdKind::kOpen;
  return step;
}

inline Made settle(const Asked& asked, std::uint64_t cost) noexcept {
  const std::uint64_t actual = std::min(cost, kMaxAmount);
  if (asked.kind != IdKind::kSettled) return settle_first(asked, actual, cost > actual);
  return asked.amount == actual ? repeat_end(asked) : conflict(asked);
}

// Ends the hold of the id. If the call was made after all, it can still be settled.
inline Made cancel(const Asked& asked) noexcept {
  if (asked.kind == IdKind::kCancelled) return repeat_end(asked);
  Made step = settle(asked, 0);
  if (step.change == Change::kNone) return step;
  const IdRecord& record = step.next.record;
  step.next.record = {record.name(), IdKind::kCancelled, 0, record.rest()};
  return step;
}

// Spends a cost that fits.
inline Made spend(const Asked& asked, std::uint64_t cost) noexcept {
  Live next = asked.live;
  next.spent += cost;
  return make(asked, next);
}

// Takes units without a hold; with an id, once.
inline Made take(Verb verb, const Asked& asked, std::uint64_t cost) noexcept {
  const bool has_id = asked.budget.asked != nullptr && (cost > 0 || verb != Verb::kPeek);
  if (has_id && asked.kind != IdKind::kUnknown) {
    if (asked.kind == IdKind::kOpen && asked.amount == cost) return settle(asked, cost);
    const bool is_same = asked.kind == IdKind::kSettled && asked.amount == cost &&
                         (asked.check == kAnyCost || asked.had_cost(cost));
    if (!is_same) return conflict(asked);
    Made step = repeat_end(asked);
    step.answer.late = false;
    return step;
  }
  if (verb == Verb::kTakeAtMost) cost = units_at_most(asked.limit, asked.live.used(), cost);
  const Answer said = quote(asked, cost);
  const bool changes = said.admitted && (cost > 0 || has_id);
  Made step =
      !changes ? keep(asked, said)
      : has_id ? end_with(asked, plus(asked.live.spent, cost), cost, check_of(cost), asked.live.at)
               : spend(asked, cost);
  if (said.admitted && verb == Verb::kTakeAtMost) step.answer.taken = cost;
  if (said.admitted && verb == Verb::kReserve) step.answer.delay = 0;
  return step;
}

// Holds a cost that fits.
inline Made open(const Asked& asked, std::uint64_t cost, Ticks ttl) noexcept {
  Live next = asked.live;
  next.held += cost;
  ++next.open;
  const Ticks end = next.at + ttl;
  next.latest = std::max(next.latest, end);
  Made step =
      make(asked, next, NextBudget::Change::kOpen, {asked.name, IdKind::kOpen, cost, 0}, end);
  step.answer.ends_after = ttl;
  return step;
}

// An id that was cancelled or settled without a hold cannot be held any more: the hold would hold
// nothing.
inline Made hold(const Asked& asked, std::uint64_t cost, Ticks ttl) noexcept {
  if (asked.kind != IdKind::kUnknown) return asked.had_cost(cost) ? repeat(asked) : conflict(asked);
  const Live& live = asked.live;
  const bool is_full = live.open >= asked.limit.holds();
  if (!is_full && fits(asked, cost)) return open(asked, cost, ttl);
  Answer said = quote(asked, cost);
  if (is_full && !said.never) {
    const Budget& budget = asked.budget;
    const Ticks end = budget.ends != nullptr
                          ? budget.ends->by_count
                          : least_end(budget, live.at, live.open - asked.limit.holds() + 1,
                                      [](const OpenHold&) { return std::uint64_t{1}; });
    said.too_many = said.admitted;
    said.admitted = false;
    said.wait = std::max(said.wait, end - live.at);
  }
  return keep(asked, said);
}

inline Made extend(const Asked& asked, Ticks ttl) noexcept {
  if (asked.kind != IdKind::kOpen) {
    Made step = keep(asked, {});
    step.answer.gone = true;
    return step;
  }
  Live next = asked.live;
  const Ticks end = next.at + ttl;
  next.latest = std::max(next.latest, end);
  Made step = make(asked, next, NextBudget::Change::kExtend,
                   {asked.name, IdKind::kOpen, asked.amount, 0}, end);
  step.answer.ends_after = ttl;
  return step;
}

// Counts work that is done; with an id, once.
inline Made charge(const Asked& asked, std::uint64_t cost) noexcept {
  if (asked.budget.asked != nullptr) {
    Made step = settle(asked, cost);
    step.answer.late = false;
    return step;
  }
  Live next = asked.live;
  next.spent = plus(next.spent, cost);
  const bool is_cut = cost > kMaxAmount - asked.live.spent;
  const bool counts = next.spent > asked.live.spent;
  Made step = counts ? make(asked, next) : keep(asked, admitted());
  step.answer.over = is_cut || next.used() > asked.limit.capacity();
  return step;
}

inline Made refund(const Asked& asked, std::uint64_t cost) noexcept {
  if (cost == 0 || asked.live.spent == 0) return keep(asked, admitted());
  Live next = asked.live;
  next.spent = minus(next.spent, cost);
  return make(asked, next);
}

inline Made act(Action action, const Asked& asked, std::uint64_t cost) noexcept {
  const Ticks ttl = action.max_wait.count();
  switch (action.verb) {
    case Verb::kHold: return hold(asked, cost, ttl);
    case Verb::kSettle: return settle(asked, cost);
    case Verb::kCancel: return cancel(asked);
    case Verb::kExtend: return extend(asked, ttl);
    case Verb::kCharge: return charge(asked, cost);
    case Verb::kRefund: return refund(asked, cost);
    default: break;
  }
  Made step = take(action.verb, asked, cost);
  if (action.verb == Verb::kPeek) step.change = Change::kNone;
  return step;
}

// Decides for a counter at the instant.
inline Made decide(Action action, const Asked& asked, std::uint64_t cost) noexcept {
  Made step = act(action, asked, cost);
  const bool is_about_id = action.verb != Verb::kRefund && (action.verb != Verb::kPeek || cost > 0);
  step.next.knows_id = is_about_id && asked.kind != IdKind::kUnknown;
  return step;
}

inline Made step(Action action, const Limit& limit, const Kept<Budget>& kept, Ticks now,
                 std::uint64_t cost) noexcept {
  if (action.verb == Verb::kReset) return {untouched(limit), Change::kErase, now, {}};
  Budget budget = kept.state;
  Forgotten forgotten = kept.forgotten;
  if (forgotten.is_past(now)) {
    budget = {.asked = budget.asked};
    forgotten = Forgotten(Forgotten::kNever);
  }
  Asked asked{limit, budget, forgotten, advance(limit, budget, now)};
  find_id(asked);
  return decide(action, asked, cost);
}
static_assert(StepFunction<decltype(step), Budget, NextBudget>);

// Reports what a step of the verb at `at` changes: the holds that have ended with their time, in
// the order of their ends, and then the call. A reset makes a default `next`. `entry` names the
// counter.
void record(Verb verb, const Limit& limit, const Budget& before, const NextBudget& next, Ticks at,
            LedgerEntry entry, Ledger& ledger) noexcept;

}  // namespace sluice::core::budget
