#pragma once

#include <cstddef>
#include <span>

#include "core/state.h"

namespace sluice::core {

// Units admitted at one instant: 12 bytes, so that a log of 100 takes 1.2 kB.
class LogEntry {
 public:
  constexpr LogEntry() = default;
  constexpr LogEntry(Ticks at, std::uint32_t units) noexcept
      : low_(static_cast<std::uint32_t>(at)),
        high_(static_cast<std::uint32_t>(static_cast<std::uint64_t>(at) >> 32)),
        units_(units) {}

  constexpr Ticks at() const noexcept {
    return static_cast<Ticks>(std::uint64_t{high_} << 32 | low_);
  }
  constexpr std::uint32_t units() const noexcept { return units_; }

 private:
  std::uint32_t low_ = 0;
  std::uint32_t high_ = 0;
  std::uint32_t units_ = 0;
};

// What a log holds, oldest first, at increasing instants. Borrowed from the caller's buffer.
struct Log {
  std::span<const LogEntry> entries;
  std::uint64_t units = 0;  // of all entries
  Ticks last = 0;           // of the last change: at or after the newest entry
};

namespace sliding_window_log {

// At most L units in any (now − P, now]: exact. Admitted instants are kept until they are P old.

// The part of a log that still counts at `at`: entries[expired...], of `units` in all.
struct View {
  Ticks at = 0;
  std::size_t expired = 0;
  std::uint64_t units = 0;
};

// Cost: linear in the entries that have expired since the log last changed.
constexpr View advance(const Limit& limit, const Log& log, Ticks now) noexcept {
  View view{.at = effective(now, log.last), .expired = 0, .units = log.units};
  const Ticks horizon = view.at - limit.period().count();
  while (view.expired < log.entries.size() && log.entries[view.expired].at() <= horizon) {
    view.units -= log.entries[view.expired++].units();
  }
  return view;
}

// Until the oldest live entries have left that hold `units` between them.
constexpr Ticks time_to_expire(const Limit& limit, std::span<const LogEntry> live, Ticks at,
                               std::uint64_t units) noexcept {
  for (const LogEntry& entry : live) {
    if (units <= entry.units()) return entry.at() + limit.period().count() - at;
    units -= entry.units();
  }
  return 0;
}

constexpr Quote quote(const Limit& limit, const Log& log, const View& view,
                      std::uint64_t cost) noexcept {
  if (cost > limit.capacity()) return never();
  if (view.units + cost <= limit.capacity()) return admitted();
  const Ticks wait = time_to_expire(limit, log.entries.subspan(view.expired), view.at,
                                    view.units + cost - limit.capacity());
  return denied_for(static_cast<std::uint64_t>(wait));
}

// With `cost` units more at the view's instant, where they were admitted.
constexpr Numbers describe(const Limit& limit, const Log& log, const View& view,
                           std::uint64_t cost) noexcept {
  const std::uint64_t used = view.units + cost;
  const std::uint64_t remaining = used < limit.capacity() ? limit.capacity() - used : 0;
  if (used == 0 || limit.capacity() == 0) return {static_cast<std::uint32_t>(remaining), 0};
  const Ticks newest = cost > 0 ? view.at : log.entries.back().at();
  return {static_cast<std::uint32_t>(remaining), newest + limit.period().count() - view.at};
}

}  // namespace sliding_window_log
}  // namespace sluice::core
