#pragma once

#include <algorithm>

#include "core/log.h"

namespace sluice::core::sliding_window_log {

// At most L units in any (now − P, now], exactly. Admitted instants are stored until they are P
// old.

// Cost: linear in the entries that have expired since the log last changed.
constexpr LogView advance(const Limit& limit, const Log& log, Ticks now) noexcept {
  LogView view{.at = effective(now, log.last), .units = log.units};
  view.horizon = view.at - limit.period().count();
  while (view.expired < log.entries.size() && log.entries[view.expired].at() <= view.horizon) {
    view.units -= log.entries[view.expired++].units();
  }
  return view;
}

// Returns the time until the oldest live entries with `units` in all have left.
constexpr Ticks time_to_expire(const Limit& limit, std::span<const LogEntry> live, Ticks at,
                               std::uint64_t units) noexcept {
  for (const LogEntry& entry : live) {
    if (units <= entry.units()) return entry.at() + limit.period().count() - at;
    units -= entry.units();
  }
  return 0;
}

// Returns the newest instant after the newest `units`, fewer than the entries have, were given
// back.
constexpr Ticks newest_without(std::span<const LogEntry> live, std::uint64_t units) noexcept {
  std::size_t i = live.size() - 1;
  for (; live[i].units() <= units; --i) units -= live[i].units();
  return live[i].at();
}

// Describes the log after a refund of `units`.
constexpr LogDigest digest_without(const Log& log, const LogView& view,
                                   std::uint64_t units) noexcept {
  LogDigest digest{.at = view.at, .units = view.units - std::min(view.units, units)};
  if (digest.units > 0) digest.newest = newest_without(log.entries.subspan(view.expired), units);
  return digest;
}

constexpr Step<NextLog> step(Action action, const Limit& limit, const Kept<Log>& kept, Ticks now,
                             std::uint64_t cost) noexcept {
  const bool is_known = !kept.forgotten.is_past(now);
  const Log log = is_known ? kept.state : Log{.older = {}, .entries = {}, .last = now};
  const LogView view = advance(limit, log, now);
  return step_of_log(
      action, limit, kept, is_known, cost, {.expired_entries = view.expired, .units = view.units},
      LogFacts{Log{.older = {},
                   .entries = log.entries.subspan(view.expired),
                   .units = view.units,
                   .last = view.at},
               [] { return false; },
               [&](std::uint64_t units) { return digest_without(log, view, units); },
               [&](std::uint64_t units) {
                 return time_to_expire(limit, log.entries.subspan(view.expired), view.at, units);
               }});
}
static_assert(StepFunction<decltype(step), Log, NextLog>);

}  // namespace sluice::core::sliding_window_log
