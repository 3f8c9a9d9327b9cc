#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/sliding_window_counter.h"
#include "core/sliding_window_log.h"

namespace sluice::core {

// What is left of the log of an older slice: so many units between two instants.
struct Summary {
  Ticks first = 0;
  Ticks last = 0;
  std::uint32_t units = 0;
};

// Summaries of older slices, oldest first, and then the log of the newest slice that has entries.
struct Hybrid {
  std::span<const Summary> older;
  Log log;
};

namespace sliding_window_hybrid {

// As the log, with the memory of a counter: only the newest slice keeps its entries; an older one
// is taken as evenly spread from its first instant to its last, rounded against the caller. The
// error is bounded by what one slice holds.

// The units of a summary that count after `horizon`.
constexpr std::uint64_t live_units(const Summary& s, Ticks horizon) noexcept {
  if (horizon < s.first) return s.units;
  if (horizon >= s.last) return 0;
  return ceil_mul_div(s.units, static_cast<std::uint64_t>(s.last - horizon), 0,
                      static_cast<std::uint64_t>(s.last - s.first));
}

// The first horizon at which no more than `units` of a summary count, fewer than it holds.
constexpr Ticks horizon_with(const Summary& s, std::uint64_t units) noexcept {
  const auto spread = static_cast<std::uint64_t>(s.last - s.first);
  return s.last - static_cast<Ticks>(floor_mul_div(units, spread, s.units));
}

struct View {
  sliding_window_log::View log;  // of the newest slice
  std::size_t expired = 0;       // summaries that no longer count
  std::uint64_t units = 0;       // in all

  constexpr Ticks at() const noexcept { return log.at; }
};

constexpr View advance(const Limit& limit, const Hybrid& hybrid, Ticks now) noexcept {
  View view{.log = sliding_window_log::advance(limit, hybrid.log, now)};
  const Ticks horizon = view.at() - limit.period().count();
  while (view.expired < hybrid.older.size() && hybrid.older[view.expired].last <= horizon) {
    ++view.expired;
  }
  view.units = view.log.units;
  for (const Summary& s : hybrid.older.subspan(view.expired)) {
    view.units += live_units(s, horizon);
  }
  return view;
}

// Until `units` of those that count have left.
constexpr Ticks time_to_expire(const Limit& limit, const Hybrid& hybrid, const View& view,
                               std::uint64_t units) noexcept {
  const Ticks horizon = view.at() - limit.period().count();
  for (const Summary& s : hybrid.older.subspan(view.expired)) {
    const std::uint64_t live = live_units(s, horizon);
    if (units <= live) return horizon_with(s, live - units) - horizon;
    units -= live;
  }
  return sliding_window_log::time_to_expire(limit, hybrid.log.entries.subspan(view.log.expired),
                                            view.at(), units);
}

constexpr Quote quote(const Limit& limit, const Hybrid& hybrid, const View& view,
                      std::uint64_t cost) noexcept {
  if (cost > limit.capacity()) return never();
  if (view.units + cost <= limit.capacity()) return admitted();
  const Ticks wait = time_to_expire(limit, hybrid, view, view.units + cost - limit.capacity());
  return denied_for(static_cast<std::uint64_t>(wait));
}

// The newest instant at which anything was admitted that still counts.
constexpr Ticks newest(const Hybrid& hybrid, const View& view) noexcept {
  if (view.log.units > 0) return hybrid.log.entries.back().at();
  return hybrid.older.back().last;
}

// With `cost` units more at the view's instant, where they were admitted but not yet written.
constexpr Numbers describe(const Limit& limit, const Hybrid& hybrid, const View& view,
                           std::uint64_t cost) noexcept {
  const std::uint64_t used = view.units + cost;
  const std::uint64_t remaining = used < limit.capacity() ? limit.capacity() - used : 0;
  if (used == 0 || limit.capacity() == 0) return {static_cast<std::uint32_t>(remaining), 0};
  const Ticks latest = cost > 0 ? view.at() : newest(hybrid, view);
  return {static_cast<std::uint32_t>(remaining), latest + limit.period().count() - view.at()};
}

// Whether a charge admitted at the view's instant begins a new slice, so that the log of the one
// before becomes a summary.
constexpr bool begins_slice(const Limit& limit, const Hybrid& hybrid, const View& view) noexcept {
  if (view.log.expired == hybrid.log.entries.size()) return false;
  const sliding_window_counter::Grid grid(limit);
  return grid.slice_of(view.at()) != grid.slice_of(hybrid.log.entries.back().at());
}

constexpr Summary summarize(const Hybrid& hybrid, const View& view) noexcept {
  const auto live = hybrid.log.entries.subspan(view.log.expired);
  return {live.front().at(), live.back().at(), static_cast<std::uint32_t>(view.log.units)};
}

}  // namespace sliding_window_hybrid
}  // namespace sluice::core
