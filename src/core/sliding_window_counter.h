#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/state.h"

namespace sluice::core {

// Slice k covers the ticks t with ⌊t·n/P⌋ = k. Products stay below 2^62: t < 2^52, n ≤ 1000.
struct SliceGrid {
  std::uint64_t period;
  std::uint64_t slices;

  constexpr explicit SliceGrid(const Limit& limit) noexcept
      : period(static_cast<std::uint64_t>(limit.period().count())), slices(limit.slices()) {}
  constexpr SliceGrid(std::uint64_t period_ticks, std::uint64_t slice_count) noexcept
      : period(period_ticks), slices(slice_count) {}

  constexpr std::uint64_t slice_of(Ticks at) const noexcept {
    return static_cast<std::uint64_t>(at) * slices / period;
  }
  // Returns the first tick at or after that phase of slice k. A phase counts 1/period of a slice.
  constexpr Ticks tick_at(std::uint64_t k, std::uint64_t phase) const noexcept {
    return static_cast<Ticks>(ceil_div(k * period + phase, slices));
  }
  friend constexpr bool operator==(const SliceGrid&, const SliceGrid&) = default;
};

// A view of a sliding counter in the caller's memory: units by slice of the grid, newest slice
// first. Counts beyond the end of a span shorter than slices + 1 are zero.
struct Slices {
  std::span<const std::uint32_t> counts;
  Ticks last = 0;  // of the last change: in the newest slice
  SliceGrid grid{1, 1};
};

namespace sliding_window_counter {

// About L units in any window of P, from counts of n slices aligned to the clock. The n newest
// slices count as a whole, the one before them by its share that is inside the window. One slice is
// the estimate from two windows. Exact if arrivals are evenly spread within the oldest slice.

using Grid = SliceGrid;

// Returns ⌈w·oldest⌉, w = 1 − phase/P: the share of the oldest slice still inside the window.
constexpr std::uint64_t weighted(const Grid& grid, Weighting weighting, std::uint64_t oldest,
                                 std::uint64_t phase) noexcept {
  if (weighting == Weighting::kNone || oldest == 0) return oldest;
  return ceil_mul_div(oldest, grid.period - phase, 0, grid.period);
}

// The counts, seen from an instant.
struct View {
  std::span<const std::uint32_t> counts;
  Ticks at = 0;
  std::uint64_t slice = 0;  // of `at`
  std::uint64_t phase = 0;  // of `at` in the slice
  std::uint64_t shift = 0;  // slices since the counts' newest
  std::uint64_t used = 0;   // units that count

  // Returns the count of slice `slice - age`.
  constexpr std::uint64_t count(std::uint64_t age) const noexcept {
    if (age < shift || age - shift >= counts.size()) return 0;
    return counts[age - shift];
  }
  // Returns the sum of the slices of that age and of newer ones.
  constexpr std::uint64_t sum_to(std::uint64_t age) const noexcept {
    std::uint64_t sum = 0;
    const std::uint64_t end = age < shift ? 0 : std::min(age - shift + 1, counts.size());
    for (std::uint64_t i = 0; i < end; ++i) sum += counts[i];
    return sum;
  }
};

constexpr View advance(const Grid& grid, Weighting weighting, const Slices& slices,
                       Ticks now) noexcept {
  View view{.counts = slices.counts, .at = effective(now, slices.last)};
  view.slice = grid.slice_of(view.at);
  const std::uint64_t begin = view.slice * grid.period;
  view.phase = static_cast<std::uint64_t>(view.at) * grid.slices - begin;
  const bool same_slice = static_cast<std::uint64_t>(slices.last) * grid.slices >= begin;
  view.shift = same_slice ? 0 : view.slice - grid.slice_of(slices.last);
  view.used =
      view.sum_to(grid.slices - 1) + weighted(grid, weighting, view.count(grid.slices), view.phase);
  return view;
}

// Returns the earliest phase at which the oldest slice counts at most `room` units; P if it must
// leave first.
constexpr std::uint64_t phase_to_fit(const Grid& grid, Weighting weighting, std::uint64_t oldest,
                                     std::uint64_t room) noexcept {
  if (oldest <= room) return 0;
  if (weighting == Weighting::kNone) return grid.period;
  return grid.period - floor_mul_div(room, grid.period, oldest);
}

// Returns the first tick, not before the view's instant, at which at most `room` units count.
constexpr Ticks first_tick_with(const Grid& grid, Weighting weighting, const View& view,
                                std::uint64_t room) noexcept {
  const std::uint64_t n = grid.slices;
  std::uint64_t newer = view.sum_to(n - 1);
  // Slice by slice the oldest leaves and the next becomes the oldest. `passed` slices have left.
  for (std::uint64_t passed = 0; passed <= n; ++passed) {
    if (newer <= room) {
      const std::uint64_t phase =
          phase_to_fit(grid, weighting, view.count(n - passed), room - newer);
      if (phase < grid.period) {
        return std::max(view.at, grid.tick_at(view.slice + passed, phase));
      }
    }
    if (passed < n) newer -= view.count(n - passed - 1);
  }
  return grid.tick_at(view.slice + n + 1, 0);
}

constexpr Answer quote(const Limit& limit, const View& view, std::uint64_t cost) noexcept {
  if (cost > limit.capacity()) return never();
  if (view.used + cost <= limit.capacity()) return admitted();
  const Grid grid(limit);
  const Ticks first = first_tick_with(grid, limit.weighting(), view, limit.capacity() - cost);
  return denied_for(static_cast<std::uint64_t>(first - view.at));
}

// Returns the time until the slice of that age has left the window.
constexpr Ticks time_to_leave(const Grid& grid, const View& view, std::uint64_t age) noexcept {
  return static_cast<Ticks>(
      ceil_div((grid.slices - age + 1) * grid.period - view.phase, grid.slices));
}

// Returns the time until the newest slice with units has left the window.
constexpr Ticks time_to_empty(const Grid& grid, const View& view, std::uint64_t cost) noexcept {
  if (cost > 0) return time_to_leave(grid, view, 0);
  for (std::uint64_t age = view.shift; age <= grid.slices; ++age) {
    if (view.count(age) != 0) return time_to_leave(grid, view, age);
  }
  return 0;
}

// Describes the counter with `cost` more units at the view's instant.
constexpr Numbers describe(const Limit& limit, const View& view, std::uint64_t cost) noexcept {
  if (limit.capacity() == 0) return {};
  const std::uint64_t used = view.used + cost;
  const std::uint64_t remaining = used < limit.capacity() ? limit.capacity() - used : 0;
  return {static_cast<std::uint32_t>(remaining), time_to_empty(Grid(limit), view, cost)};
}

}  // namespace sliding_window_counter

// The next counts: the stored ones, moved to older slices, with units added to the newest slice or
// given back, the newest first.
struct NextSlices {
  std::span<const std::uint32_t> counts;
  std::uint64_t shift = 0;
  std::uint64_t added = 0;
  std::uint64_t given_back = 0;

  // Writes slices + 1 counts, newest first. `out` may be the memory of `counts`.
  constexpr void write(std::span<std::uint32_t> out) const noexcept {
    if (shift > 0 || counts.data() != out.data()) {
      for (std::uint64_t age = out.size(); age-- > 0;) {
        out[age] = age < shift || age - shift >= counts.size() ? 0 : counts[age - shift];
      }
    }
    out[0] += static_cast<std::uint32_t>(added);
    std::uint64_t left = given_back;
    for (std::size_t i = 0; left > 0 && i < out.size(); ++i) {
      const std::uint64_t given = std::min<std::uint64_t>(out[i], left);
      out[i] -= static_cast<std::uint32_t>(given);
      left -= given;
    }
  }
};

namespace sliding_window_counter {

// Returns the slices on the limit's grid. If their grid is another one, all units that counted at
// the last change count in the slice of that change; `converted` then stores them.
constexpr Slices on_grid(const Limit& limit, const Slices& slices,
                         std::uint32_t& converted) noexcept {
  const Grid grid(limit);
  if (slices.grid == grid) return slices;
  const View then = advance(slices.grid, limit.weighting(), slices, slices.last);
  converted = static_cast<std::uint32_t>(std::min(then.used, kMaxUnits));
  return {{&converted, 1}, slices.last, grid};
}

// Describes the counter without the newest `units`.
constexpr Numbers describe_without(const Limit& limit, const View& view,
                                   std::uint64_t units) noexcept {
  const Grid grid(limit);
  std::uint64_t used = 0;
  Ticks reset_after = 0;
  for (std::uint64_t age = 0; age <= grid.slices; ++age) {
    const std::uint64_t given = std::min(view.count(age), units);
    const std::uint64_t left = view.count(age) - given;
    units -= given;
    used += age < grid.slices ? left : weighted(grid, limit.weighting(), left, view.phase);
    if (left > 0 && reset_after == 0) reset_after = time_to_leave(grid, view, age);
  }
  const std::uint64_t remaining = used < limit.capacity() ? limit.capacity() - used : 0;
  return {static_cast<std::uint32_t>(remaining), reset_after};
}

// Returns the most units that a charge may add.
constexpr std::uint64_t room_for_charges(const Limit& limit, const View& view) noexcept {
  const std::uint64_t stored = view.sum_to(Grid(limit).slices);
  return limit.capacity() > 0 && stored < kMaxUnits ? kMaxUnits - stored : 0;
}

// The slices must be on the limit's grid. Writes each field of `made` once.
[[gnu::always_inline]] constexpr void make_step(Action action, const Limit& limit,
                                                const Kept<Slices>& kept, Ticks now,
                                                std::uint64_t cost,
                                                Step<NextSlices>& made) noexcept {
  const Verb verb = action.verb;
  if (verb == Verb::kReset) {
    made = {untouched(limit), Change::kErase, now, {}};
    return;
  }
  const bool is_known = !kept.forgotten.is_past(now);
  const Slices stored = is_known ? kept.state : Slices{.counts = {}, .last = now};
  const View view = advance(Grid(limit), limit.weighting(), stored, now);
  made.at = view.at;
  if (verb == Verb::kRefund) {
    if (can_give_back(limit, describe(limit, view, 0), cost)) {
      made.answer = {admitted(), describe_without(limit, view, cost)};
      made.change = Change::kWrite;
      made.next = {view.counts, view.shift, 0, cost};
      return;
    }
    cost = 0;
  }
  std::uint64_t asked = cost;
  if (verb == Verb::kTakeAtMost) asked = units_at_most(limit, view.used, cost);
  if (verb == Verb::kCharge) asked = std::min(cost, room_for_charges(limit, view));
  const bool is_free = asked == 0 || verb == Verb::kCharge;
  const Answer quoted = is_free ? admitted() : quote(limit, view, asked);
  const std::uint64_t added = quoted.admitted ? asked : 0;
  made.answer = {quoted, describe(limit, view, added)};
  made.change = added > 0 && verb != Verb::kPeek ? Change::kWrite : Change::kNone;
  made.next = {view.counts, view.shift, added, 0};
  if (verb == Verb::kCharge) {
    made.answer.over = added < cost || exceeds(limit, view.used + added);
  }
  if (verb == Verb::kTakeAtMost) made.answer.taken = static_cast<std::uint32_t>(added);
  if (verb == Verb::kReserve && quoted.admitted) made.answer.delay = 0;
  if (is_known && added == 0) kept.forgotten.end(view.at, made.answer);
}

// Makes the step of a take: that of make_step(), without the other verbs. The counter must be
// known, its slices on the limit's grid, and the cost above 0.
[[gnu::always_inline]] constexpr void make_take(const Limit& limit, const Kept<Slices>& kept,
                                                Ticks now, std::uint64_t cost,
                                                Step<NextSlices>& made) noexcept {
  const Grid& grid = kept.state.grid;
  const View view = advance(grid, limit.weighting(), kept.state, now);
  made.at = view.at;
  made.next = {view.counts, view.shift, cost, 0};
  if (cost <= limit.capacity() && view.used + cost <= limit.capacity()) [[likely]] {
    // As time_to_leave(), with a smaller dividend.
    const auto reset_after =
        static_cast<Ticks>(grid.period + ceil_div(grid.period - view.phase, grid.slices));
    made.answer = {admitted(), Numbers{limit.capacity() - view.used - cost, reset_after}};
    made.change = Change::kWrite;
  } else {
    made.answer = {quote(limit, view, cost), describe(limit, view, 0)};
    made.change = Change::kNone;
    kept.forgotten.end(view.at, made.answer);
  }
}

constexpr Step<NextSlices> step(Action action, const Limit& limit, const Kept<Slices>& kept,
                                Ticks now, std::uint64_t cost) noexcept {
  Step<NextSlices> made{};
  make_step(action, limit, kept, now, cost, made);
  return made;
}
static_assert(StepFunction<decltype(step), Slices, NextSlices>);

}  // namespace sliding_window_counter
}  // namespace sluice::core
