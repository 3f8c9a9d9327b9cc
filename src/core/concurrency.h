#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/step.h"
#include "sluice/permit_id.h"

namespace sluice::core {

// The units that one permit holds in one counter.
struct PermitEntry {
  Ticks end = 0;  // of its lease
  PermitId id = {};
  std::uint32_t units = 0;
};
static_assert(sizeof(PermitEntry) == 24);

// A view of permits in the caller's memory, in the order in which they were taken.
struct Permits {
  std::span<const PermitEntry> entries;
  std::uint64_t units = 0;  // of all entries
  Ticks first_end = 0;      // the earliest and the latest end of an entry, if there is one
  Ticks last_end = 0;
  Ticks last = 0;                   // of the last change
  const PermitId* asked = nullptr;  // the permit of the request
};

// The next permits, as PermitBuffer::write() makes them. Those that have ended leave.
struct NextPermits {
  Verb change = Verb::kPeek;  // or kTake, kRelease, kExtend or kRefund
  PermitId id = {};
  std::uint64_t units = 0;  // to take or to give back
  Ticks end = 0;            // of a lease that starts
  std::size_t live = 0;     // permits before the change that have not ended
};

// Permits in one piece of the caller's memory: this header, then room for permits. Plain memory
// without a destructor.
struct PermitBuffer {
  Ticks last = 0;  // instant of the last change
  Ticks first_end = 0;
  Ticks last_end = 0;
  std::uint32_t units = 0;
  std::uint32_t room = 0;
  std::uint32_t count = 0;

  static std::size_t bytes_for(std::size_t permits) noexcept {
    return sizeof(PermitBuffer) + permits * sizeof(PermitEntry);
  }
  std::size_t bytes() const noexcept { return bytes_for(room); }

  PermitEntry* begin() noexcept { return reinterpret_cast<PermitEntry*>(this + 1); }
  Permits view() noexcept { return {{begin(), count}, units, first_end, last_end, last, nullptr}; }

  // Copies permits that fit.
  void copy(PermitBuffer& from) noexcept;
  // Whether write() has room.
  bool has_room(const NextPermits& next) const noexcept {
    return next.change != Verb::kTake || next.live < room;
  }
  // Makes the next permits, which were decided at `at`. There must be room for them.
  void write(const NextPermits& next, Ticks at) noexcept;

 private:
  void add(Ticks end, const PermitId& id, std::uint32_t entry_units) noexcept;
  void rewrite(const NextPermits& next, Ticks at) noexcept;
  void give_back(std::uint64_t given, Ticks at) noexcept;
};
static_assert(sizeof(PermitBuffer) == 40);

}  // namespace sluice::core

namespace sluice::core::concurrency {

// At most L units in flight. A permit holds its units until it is released, or until the end of its
// lease.

// The permits that are live at an instant.
struct Live {
  Ticks at = 0;
  std::size_t count = 0;
  std::uint64_t units = 0;
  Ticks first_end = 0;
  Ticks last_end = 0;
};

// Looks at every permit except those that `is_left_out`.
template <typename IsLeftOut>
constexpr Live count_live(std::span<const PermitEntry> entries, Ticks at,
                          const IsLeftOut& is_left_out) noexcept {
  Live live{.at = at};
  for (const PermitEntry& entry : entries) {
    if (entry.end <= at || is_left_out(entry)) continue;
    live.units += entry.units;
    live.first_end = live.count == 0 ? entry.end : std::min(live.first_end, entry.end);
    live.last_end = std::max(live.last_end, entry.end);
    ++live.count;
  }
  return live;
}

// Cost: constant, unless a lease has ended since the last change.
constexpr Live advance(const Permits& permits, Ticks now) noexcept {
  const Ticks at = effective(now, permits.last);
  if (permits.entries.empty()) return {.at = at};
  if (permits.first_end > at) {
    return {at, permits.entries.size(), permits.units, permits.first_end, permits.last_end};
  }
  return count_live(permits.entries, at, [](const PermitEntry&) { return false; });
}

// Returns the units of live permits whose leases end until `end`.
constexpr std::uint64_t units_ended(std::span<const PermitEntry> entries, Ticks at,
                                    Ticks end) noexcept {
  std::uint64_t units = 0;
  for (const PermitEntry& entry : entries) {
    if (entry.end > at && entry.end <= end) units += entry.units;
  }
  return units;
}

// Returns the time until the leases of permits with this many units have ended. They are not in the
// order of their ends, because a lease can start again.
constexpr Ticks time_to_end(const Permits& permits, const Live& live,
                            std::uint64_t units) noexcept {
  if (units <= 1) return live.first_end - live.at;
  Ticks before = live.first_end - 1;
  Ticks end = live.last_end;
  if (units_ended(permits.entries, live.at, live.first_end) >= units) end = live.first_end;
  while (end - before > 1) {
    const Ticks middle = before + (end - before) / 2;
    (units_ended(permits.entries, live.at, middle) >= units ? end : before) = middle;
  }
  return end - live.at;
}

constexpr Numbers describe(const Limit& limit, const Live& live) noexcept {
  const std::uint64_t capacity = limit.capacity();
  return {static_cast<std::uint32_t>(live.units < capacity ? capacity - live.units : 0),
          live.count > 0 ? live.last_end - live.at : 0};
}

constexpr Live with(Live live, std::uint64_t units, Ticks end) noexcept {
  live.first_end = live.count == 0 ? end : std::min(live.first_end, end);
  live.last_end = std::max(live.last_end, end);
  live.units += units;
  ++live.count;
  return live;
}

constexpr Answer quote(const Limit& limit, const Permits& permits, const Live& live,
                       std::uint64_t cost) noexcept {
  const std::uint64_t capacity = limit.capacity();
  if (cost == 0) return admitted();
  if (cost > capacity) return never();
  if (live.units + cost <= capacity) return admitted();
  const std::uint64_t needed = live.units + cost - capacity;
  return denied_for(static_cast<std::uint64_t>(time_to_end(permits, live, needed)));
}

[[gnu::always_inline]] constexpr Step<NextPermits> take(Verb verb, const Limit& limit,
                                                        const Permits& permits, const Live& live,
                                                        std::uint64_t cost) noexcept {
  if (verb == Verb::kTakeAtMost) cost = units_at_most(limit, live.units, cost);
  const Answer quoted = quote(limit, permits, live, cost);
  const bool takes_any = quoted.admitted && cost > 0;
  const Ticks end = live.at + limit.period().count();
  Step<NextPermits> step{{quoted, describe(limit, takes_any ? with(live, cost, end) : live)},
                         takes_any && verb != Verb::kPeek ? Change::kWrite : Change::kNone,
                         live.at,
                         {.live = live.count}};
  if (takes_any) {
    step.next.change = Verb::kTake;
    step.next.units = cost;
    step.next.end = end;
    if (permits.asked != nullptr) step.next.id = *permits.asked;
  }
  if (quoted.admitted && verb == Verb::kTakeAtMost) step.answer.taken = cost;
  if (quoted.admitted && verb == Verb::kReserve) step.answer.delay = 0;
  return step;
}

// Ends the permit, or starts its lease again.
constexpr Step<NextPermits> change(Verb verb, const Limit& limit, const Permits& permits,
                                   const Live& live) noexcept {
  const auto is_asked = [&](const PermitEntry& entry) {
    return permits.asked != nullptr && entry.id == *permits.asked;
  };
  const Live others = count_live(permits.entries, live.at, is_asked);
  if (others.count == live.count) {
    Answer answer{{}, describe(limit, live)};
    answer.gone = true;
    return {answer, Change::kNone, live.at, {}};
  }
  NextPermits next{.change = verb,
                   .id = *permits.asked,
                   .end = live.at + limit.period().count(),
                   .live = live.count};
  const Live left =
      verb == Verb::kRelease ? others : with(others, live.units - others.units, next.end);
  return {{admitted(), describe(limit, left)}, Change::kWrite, live.at, next};
}

// Gives back units of the newest permits first.
constexpr Step<NextPermits> refund(const Limit& limit, const Permits& permits, const Live& live,
                                   std::uint64_t cost) noexcept {
  NextPermits next{.change = Verb::kRefund, .units = cost, .live = live.count};
  if (cost == 0 || live.count == 0) {
    return {{admitted(), describe(limit, live)}, Change::kNone, live.at, next};
  }
  const std::uint64_t units = live.units - std::min(live.units, cost);
  std::uint64_t older = 0;  // units of the permits before the current one
  Live left{.at = live.at};
  for (const PermitEntry& entry : permits.entries) {
    if (entry.end <= live.at || older >= units) continue;
    left = with(left, std::min<std::uint64_t>(entry.units, units - older), entry.end);
    older += entry.units;
  }
  return {{admitted(), describe(limit, left)}, Change::kWrite, live.at, next};
}

[[gnu::always_inline]] constexpr Step<NextPermits> step(Action action, const Limit& limit,
                                                        const Kept<Permits>& kept, Ticks now,
                                                        std::uint64_t cost) noexcept {
  const Verb verb = action.verb;
  if (verb == Verb::kReset) return {untouched(limit), Change::kErase, now, {}};
  Permits permits = kept.state;
  // A limit of 0 reads no permits, except to change one that was taken before.
  if (limit.capacity() == 0 && !changes_permit(verb)) permits = {};
  const Live live = advance(permits, now);
  if (changes_permit(verb)) return change(verb, limit, permits, live);
  if (verb == Verb::kRefund) return refund(limit, permits, live, cost);
  return take(verb, limit, permits, live, cost);
}
static_assert(StepFunction<decltype(step), Permits, NextPermits>);

}  // namespace sluice::core::concurrency
