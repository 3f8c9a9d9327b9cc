#include "core/log.h"

#include <algorithm>

namespace sluice::core {

void LogBuffer::copy(LogBuffer& from) noexcept {
  last = from.last;
  log_units = from.log_units;
  summaries = from.summaries;
  entries = from.entries;
  head = 0;
  std::copy_n(from.summary_begin(), summaries, summary_begin());
  std::copy_n(from.entry_begin() + from.head, entries, entry_begin());
}

bool LogBuffer::has_room(const NextLog& next) const noexcept {
  if (next.added == 0) return true;
  if (next.summarizes) return summaries - next.expired_summaries < summary_room;
  const std::size_t live = entries - next.expired_entries;
  const std::size_t first = live == 0 ? 0 : head + next.expired_entries;
  return first + live < entry_room || (first > 0 && first >= entry_room / 4);
}

void LogBuffer::write(const NextLog& next, Ticks at) noexcept {
  drop_expired(next);
  if (next.summarizes) summarize();
  if (next.added > 0) add(at, next.added);
  if (next.given_back > 0) give_back(next.given_back);
  last = at;
}

void LogBuffer::drop_expired(const NextLog& next) noexcept {
  Summary* const begin = summary_begin();
  std::copy(begin + next.expired_summaries, begin + summaries, begin);
  summaries -= static_cast<std::uint32_t>(next.expired_summaries);
  entries -= static_cast<std::uint32_t>(next.expired_entries);
  head = entries == 0 ? 0 : head + static_cast<std::uint32_t>(next.expired_entries);
  log_units = next.units;
}

void LogBuffer::summarize() noexcept {
  const LogEntry* const begin = entry_begin() + head;
  summary_begin()[summaries++] = {begin[0].at(), begin[entries - 1].at(),
                                  static_cast<std::uint32_t>(log_units)};
  entries = head = 0;
  log_units = 0;
}

void LogBuffer::add(Ticks at, std::uint32_t units) noexcept {
  log_units += units;
  LogEntry* const begin = entry_begin();
  if (entries > 0 && begin[head + entries - 1].at() == at) {
    LogEntry& newest = begin[head + entries - 1];
    newest = LogEntry(at, newest.units() + units);
    return;
  }
  if (head + entries == entry_room) {
    std::copy(begin + head, begin + head + entries, begin);
    head = 0;
  }
  begin[head + entries++] = LogEntry(at, units);
}

void LogBuffer::give_back(std::uint64_t units) noexcept {
  while (units > 0 && entries > 0) {
    LogEntry& newest = entry_begin()[head + entries - 1];
    const auto given = static_cast<std::uint32_t>(std::min<std::uint64_t>(units, newest.units()));
    newest = LogEntry(newest.at(), newest.units() - given);
    if (newest.units() == 0) --entries;
    log_units -= given;
    units -= given;
  }
  while (units > 0 && summaries > 0) {
    Summary& newest = summary_begin()[summaries - 1];
    const auto given = static_cast<std::uint32_t>(std::min<std::uint64_t>(units, newest.units));
    newest.units -= given;
    if (newest.units == 0) --summaries;
    units -= given;
  }
}

}  // namespace sluice::core
