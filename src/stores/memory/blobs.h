#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/sliding_window_counter.h"
#include "core/sliding_window_hybrid.h"
#include "core/sliding_window_log.h"

namespace sluice::memory {

// The states that have no fixed size: a header and its variable part in one piece of memory. Plain
// memory without a destructor; a Shard makes and frees the pieces.

// A sliding counter: slices + 1 counts, newest first. 64 bytes for ten slices.
struct SliceBlob {
  core::Ticks last = 0;  // instant of the last change
  std::uint64_t period = 0;
  std::uint32_t slices = 0;
  std::uint32_t newest = 0;  // the first count; the others follow

  static std::size_t bytes_for(std::size_t slice_count) noexcept {
    return sizeof(SliceBlob) + slice_count * sizeof(std::uint32_t);
  }
  std::size_t bytes() const noexcept { return bytes_for(slices); }
  std::span<std::uint32_t> counts() noexcept { return {&newest, std::size_t{slices} + 1}; }
  core::sliding_window_counter::Grid grid() const noexcept { return {period, slices}; }
};
static_assert(sizeof(SliceBlob) == 24);

// A window log, and the hybrid: summaries (none for the log), then entries, which start at `head`
// so that old ones leave without a move.
struct LogBlob {
  core::Ticks last = 0;         // instant of the last change
  std::uint64_t log_units = 0;  // of all entries
  std::uint32_t size = 0;       // of the whole piece, in units of 4 bytes
  std::uint32_t summary_room = 0;
  std::uint32_t summaries = 0;
  std::uint32_t entry_room = 0;
  std::uint32_t entries = 0;
  std::uint32_t head = 0;

  static std::size_t bytes_for(std::size_t summary_count, std::size_t entry_count) noexcept {
    return sizeof(LogBlob) + summary_count * sizeof(core::Summary) +
           entry_count * sizeof(core::LogEntry);
  }
  std::size_t bytes() const noexcept { return std::size_t{size} * 4; }

  core::Summary* summary_begin() noexcept { return reinterpret_cast<core::Summary*>(this + 1); }
  core::LogEntry* entry_begin() noexcept {
    return reinterpret_cast<core::LogEntry*>(summary_begin() + summary_room);
  }
  core::Hybrid view() noexcept {
    return {{summary_begin(), summaries}, {{entry_begin() + head, entries}, log_units, last}};
  }

  // Whether there is room for push_summary(), after which the log is empty, or for push_units(),
  // both after drop_expired(). Where entries fill the end, they move to the front only when a
  // quarter is free there, so that a push costs O(1) on average.
  bool has_room(const core::sliding_window_hybrid::View& view, bool for_summary) const noexcept {
    if (for_summary) return summaries - view.expired < summary_room;
    const std::size_t live = entries - view.log.expired;
    const std::size_t first = live == 0 ? 0 : head + view.log.expired;
    return first + live < entry_room || (first > 0 && first >= entry_room / 4);
  }
  // Copies what `from` holds. There must be room for it.
  void copy(LogBlob& from) noexcept;
  // Forgets the oldest summaries and entries, which no longer count.
  void drop_expired(const core::sliding_window_hybrid::View& view) noexcept;
  // The log becomes one summary. There must be room for it.
  void push_summary(const core::Summary& summary) noexcept;
  // Adds to the newest entry, or one behind it. There must be room for it.
  void push_units(core::Ticks at, std::uint32_t units) noexcept;
  // Takes units back, the newest first.
  void give_back(core::Ticks at, std::uint64_t units) noexcept;
};
static_assert(sizeof(LogBlob) == 40);

}  // namespace sluice::memory
