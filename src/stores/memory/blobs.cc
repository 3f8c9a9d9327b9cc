#include "stores/memory/blobs.h"

namespace sluice::memory {

void LogBlob::copy(LogBlob& from) noexcept {
  last = from.last;
  log_units = from.log_units;
  summaries = from.summaries;
  entries = from.entries;
  head = 0;
  std::copy_n(from.summary_begin(), summaries, summary_begin());
  std::copy_n(from.entry_begin() + from.head, entries, entry_begin());
}

void LogBlob::drop_expired(const core::sliding_window_hybrid::View& view) noexcept {
  core::Summary* const begin = summary_begin();
  std::copy(begin + view.expired, begin + summaries, begin);
  summaries -= static_cast<std::uint32_t>(view.expired);
  entries -= static_cast<std::uint32_t>(view.log.expired);
  head = entries == 0 ? 0 : head + static_cast<std::uint32_t>(view.log.expired);
  log_units = view.log.units;
}

void LogBlob::push_summary(const core::Summary& summary) noexcept {
  summary_begin()[summaries++] = summary;
  entries = head = 0;
  log_units = 0;
}

void LogBlob::push_units(core::Ticks at, std::uint32_t units) noexcept {
  last = at;
  log_units += units;
  core::LogEntry* const begin = entry_begin();
  if (entries > 0 && begin[head + entries - 1].at() == at) {
    core::LogEntry& newest = begin[head + entries - 1];
    newest = core::LogEntry(at, newest.units() + units);
    return;
  }
  if (head + entries == entry_room) {
    std::copy(begin + head, begin + head + entries, begin);
    head = 0;
  }
  begin[head + entries++] = core::LogEntry(at, units);
}

void LogBlob::give_back(core::Ticks at, std::uint64_t units) noexcept {
  last = at;
  while (units > 0 && entries > 0) {
    core::LogEntry& newest = entry_begin()[head + entries - 1];
    const auto given = static_cast<std::uint32_t>(std::min<std::uint64_t>(units, newest.units()));
    newest = core::LogEntry(newest.at(), newest.units() - given);
    if (newest.units() == 0) --entries;
    log_units -= given;
    units -= given;
  }
  while (units > 0 && summaries > 0) {
    core::Summary& newest = summary_begin()[summaries - 1];
    const auto given = static_cast<std::uint32_t>(std::min<std::uint64_t>(units, newest.units));
    newest.units -= given;
    if (newest.units == 0) --summaries;
    units -= given;
  }
}

}  // namespace sluice::memory
