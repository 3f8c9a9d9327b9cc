#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/state.h"

namespace sluice::core {

// Units by slice of period/slices, newest slice first, as of `last`. Borrowed from the caller's
// buffer of slices + 1 counts; what lies beyond a shorter span is zero.
struct Slices {
  std::span<const std::uint32_t> counts;
  Ticks last = 0;  // of the last change: in the newest slice
};

namespace sliding_window_counter {

// About L units in any window of P, from counts of n slices aligned to the clock: the n newest
// whole and the one before by the share of it that the window still covers. With one slice it is
// the two-window estimate. Exact for arrivals that are even within the oldest slice.

// Slice k covers the ticks t with ⌊t·n/P⌋ = k. Products stay below 2^62: t < 2^52, n ≤ 1000.
struct Grid {
  std::uint64_t period;
  std::uint64_t slices;

  constexpr explicit Grid(const Limit& limit) noexcept
      : period(static_cast<std::uint64_t>(limit.period().count())), slices(limit.slices()) {}
  constexpr Grid(std::uint64_t period_ticks, std::uint64_t slice_count) noexcept
      : period(period_ticks), slices(slice_count) {}

  constexpr std::uint64_t slice_of(Ticks at) const noexcept {
    return static_cast<std::uint64_t>(at) * slices / period;
  }
  // The first tick at or after that phase of slice k; a phase counts 1/period of a slice.
  constexpr Ticks tick_at(std::uint64_t k, std::uint64_t phase) const noexcept {
    return static_cast<Ticks>(ceil_div(k * period + phase, slices));
  }
  friend constexpr bool operator==(const Grid&, const Grid&) = default;
};

// ⌈w·oldest⌉, w = 1 − phase/P: the share of the oldest slice still inside the window.
constexpr std::uint64_t weighted(const Grid& grid, Weighting weighting, std::uint64_t oldest,
                                 std::uint64_t phase) noexcept {
  if (weighting == Weighting::kNone || oldest == 0) return oldest;
  return ceil_mul_div(oldest, grid.period - phase, 0, grid.period);
}

// The counts as seen from an instant.
struct View {
  std::span<const std::uint32_t> counts;
  Ticks at = 0;
  std::uint64_t slice = 0;  // that of `at`
  std::uint64_t shift = 0;  // slices since the counts' newest
  std::uint64_t used = 0;   // units that count

  // The count of slice `slice - age`.
  constexpr std::uint64_t count(std::uint64_t age) const noexcept {
    if (age < shift || age - shift >= counts.size()) return 0;
    return counts[age - shift];
  }
  // Of the slices that are `age` slices old or younger.
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
  const std::uint64_t phase = static_cast<std::uint64_t>(view.at) * grid.slices - begin;
  const bool same_slice = static_cast<std::uint64_t>(slices.last) * grid.slices >= begin;
  view.shift = same_slice ? 0 : view.slice - grid.slice_of(slices.last);
  view.used =
      view.sum_to(grid.slices - 1) + weighted(grid, weighting, view.count(grid.slices), phase);
  return view;
}

// The earliest phase at which an oldest slice counts for `room` units at most; P where it must
// have left.
constexpr std::uint64_t phase_to_fit(const Grid& grid, Weighting weighting, std::uint64_t oldest,
                                     std::uint64_t room) noexcept {
  if (oldest <= room) return 0;
  if (weighting == Weighting::kNone) return grid.period;
  return grid.period - floor_mul_div(room, grid.period, oldest);
}

// The first tick from the view's instant on at which no more than `room` units count.
constexpr Ticks first_tick_with(const Grid& grid, Weighting weighting, const View& view,
                                std::uint64_t room) noexcept {
  const std::uint64_t n = grid.slices;
  std::uint64_t newer = view.sum_to(n - 1);
  // Slice by slice the oldest leaves and the next becomes the oldest: `passed` have left.
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

constexpr Quote quote(const Limit& limit, const View& view, std::uint64_t cost) noexcept {
  if (cost > limit.capacity()) return never();
  if (view.used + cost <= limit.capacity()) return admitted();
  const Grid grid(limit);
  const Ticks first = first_tick_with(grid, limit.weighting(), view, limit.capacity() - cost);
  return denied_for(static_cast<std::uint64_t>(first - view.at));
}

// Until the newest slice that holds anything has left the window.
constexpr Ticks time_to_empty(const Grid& grid, const View& view, std::uint64_t cost) noexcept {
  if (cost > 0) return grid.tick_at(view.slice + grid.slices + 1, 0) - view.at;
  for (std::uint64_t age = view.shift; age <= grid.slices; ++age) {
    if (view.count(age) != 0) return grid.tick_at(view.slice - age + grid.slices + 1, 0) - view.at;
  }
  return 0;
}

// With `cost` units more at the view's instant, where they were admitted.
constexpr Numbers describe(const Limit& limit, const View& view, std::uint64_t cost) noexcept {
  if (limit.capacity() == 0) return {};
  const std::uint64_t used = view.used + cost;
  const std::uint64_t remaining = used < limit.capacity() ? limit.capacity() - used : 0;
  return {static_cast<std::uint32_t>(remaining), time_to_empty(Grid(limit), view, cost)};
}

// Writes the view's counts, newest first, into `out` of slices + 1 (which may be the same buffer),
// with `cost` units more in the newest.
constexpr void take(const View& view, std::uint64_t cost, std::span<std::uint32_t> out) noexcept {
  if (view.shift > 0 || view.counts.data() != out.data()) {
    for (std::uint64_t age = out.size(); age-- > 0;) {
      out[age] = static_cast<std::uint32_t>(view.count(age));
    }
  }
  out[0] += static_cast<std::uint32_t>(cost);
}

// Takes `cost` units back, newest slices first.
constexpr void give_back(std::span<std::uint32_t> counts, std::uint64_t cost) noexcept {
  for (std::uint32_t& count : counts) {
    const std::uint64_t given = std::min<std::uint64_t>(count, cost);
    count -= static_cast<std::uint32_t>(given);
    cost -= given;
  }
}

}  // namespace sliding_window_counter
}  // namespace sluice::core
