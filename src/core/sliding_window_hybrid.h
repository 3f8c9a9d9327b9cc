#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/log.h"
#include "core/sliding_window_counter.h"
#include "core/sliding_window_log.h"

namespace sluice::core {

namespace sliding_window_hybrid {

// As the log, with the memory of a counter. Only the newest slice has entries. The units of an
// older slice are assumed to be evenly spread from its first instant to its last, and rounded
// against the caller. The error is at most the units of one slice.

// Returns the units of a summary that count after `horizon`.
constexpr std::uint64_t live_units(const Summary& s, Ticks horizon) noexcept {
  if (horizon < s.first) return s.units;
  if (horizon >= s.last) return 0;
  return ceil_mul_div(s.units, static_cast<std::uint64_t>(s.last - horizon), 0,
                      static_cast<std::uint64_t>(s.last - s.first));
}

// Returns the first horizon at which at most `units` of a summary, fewer than it has, count.
constexpr Ticks horizon_with(const Summary& s, std::uint64_t units) noexcept {
  const auto spread = static_cast<std::uint64_t>(s.last - s.first);
  return s.last - static_cast<Ticks>(floor_mul_div(units, spread, s.units));
}

constexpr LogView advance(const Limit& limit, const Log& log, Ticks now) noexcept {
  LogView view = sliding_window_log::advance(limit, log, now);
  while (view.expired_older < log.older.size() &&
         log.older[view.expired_older].last <= view.horizon) {
    ++view.expired_older;
  }
  return view;
}

// Describes the log after a refund of `units`.
constexpr LogDigest digest_without(const Log& log, const LogView& view,
                                   std::uint64_t units) noexcept {
  LogDigest digest = sliding_window_log::digest_without(log, view, units);
  units -= std::min(view.units, units);
  const auto older = log.older.subspan(view.expired_older);
  for (std::size_t i = older.size(); i-- > 0;) {
    Summary left = older[i];
    const std::uint64_t given = std::min(left.units, units);
    left.units -= given;
    units -= given;
    if (left.units == 0) continue;
    if (digest.units == 0) digest.newest = left.last;
    digest.units += live_units(left, view.horizon);
  }
  return digest;
}

// Returns the time until `units` of those that count have left.
constexpr Ticks time_to_expire(const Limit& limit, const Log& log, const LogView& view,
                               std::uint64_t units) noexcept {
  for (const Summary& s : log.older.subspan(view.expired_older)) {
    const std::uint64_t live = live_units(s, view.horizon);
    if (units <= live) return horizon_with(s, live - units) - view.horizon;
    units -= live;
  }
  return sliding_window_log::time_to_expire(limit, log.entries.subspan(view.expired), view.at,
                                            units);
}

// Whether a charge admitted at the view's instant begins a new slice, so that the entries of the
// slice before become a summary.
constexpr bool begins_slice(const Limit& limit, const Log& log, const LogView& view) noexcept {
  if (view.expired == log.entries.size()) return false;
  const SliceGrid grid(limit);
  return grid.slice_of(view.at) != grid.slice_of(log.entries.back().at());
}

constexpr Step<NextLog> step(Action action, const Limit& limit, const Kept<Log>& kept, Ticks now,
                             std::uint64_t cost) noexcept {
  const bool is_known = !kept.forgotten.is_past(now);
  const Log log = is_known ? kept.state : Log{.older = {}, .entries = {}, .last = now};
  const LogView view = advance(limit, log, now);
  return step_of_log(
      action, limit, kept, is_known, cost,
      {.expired_summaries = view.expired_older,
       .expired_entries = view.expired,
       .units = view.units},
      LogFacts{Log{log.older.subspan(view.expired_older), log.entries.subspan(view.expired),
                   view.units, view.at},
               [&] { return begins_slice(limit, log, view); },
               [&](std::uint64_t units) { return digest_without(log, view, units); },
               [&](std::uint64_t units) { return time_to_expire(limit, log, view, units); }});
}
static_assert(StepFunction<decltype(step), Log, NextLog>);

}  // namespace sliding_window_hybrid
}  // namespace sluice::core
