#include "core/log.h"

#include <algorithm>
#include <bit>

namespace sluice::core {
namespace {

// Returns the length of a slice so that a span of time is in at most slices + 1 of them. It is a
// power of two, so that a shorter slice is inside a longer one, and units that are merged several
// times stay inside the longest of them.
std::uint64_t slice_ticks(std::uint64_t span, std::uint64_t slices) noexcept {
  return slices == 0 ? ~std::uint64_t{0} : std::bit_ceil(ceil_div(span, slices));
}

bool are_in_one_slice(Ticks a, Ticks b, std::uint64_t slice_ticks) noexcept {
  return static_cast<std::uint64_t>(a) / slice_ticks == static_cast<std::uint64_t>(b) / slice_ticks;
}

}  // namespace

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
  if (next.added == 0 || next.moves_newest) return true;
  if (next.summarizes) return summaries - next.expired_summaries < summary_room;
  const std::size_t live = entries - next.expired_entries;
  const std::size_t first = live == 0 ? 0 : head + next.expired_entries;
  return first + live < entry_room || (first > 0 && first >= entry_room / 4);
}

void LogBuffer::write(const NextLog& next, Ticks at) noexcept {
  drop_expired(next);
  if (next.summarizes) summarize();
  if (next.added > 0) add(at, next);
  if (next.given_back > 0) give_back(next.given_back);
  last = at;
}

void LogBuffer::merge(const NextLog& next, const Limit& limit) noexcept {
  drop_expired(next);
  const auto period = static_cast<std::uint64_t>(limit.period().count());
  if (next.summarizes) {
    std::uint64_t slices = summary_room / 2;
    merge_summaries(slice_ticks(period, slices));
    while (slices > 0 && summaries >= summary_room) {
      slices /= 2;
      merge_summaries(slice_ticks(period, slices));
    }
    return;
  }
  const std::uint64_t span = period / limit.slices();
  std::uint64_t slices = entry_room / 2;
  merge_entries(slice_ticks(span, slices));
  while (slices > 0 && entries >= entry_room) {
    slices /= 2;
    merge_entries(slice_ticks(span, slices));
  }
}

void LogBuffer::merge_entries(std::uint64_t slice_ticks) noexcept {
  LogEntry* const begin = entry_begin();
  std::uint32_t merged = 0;
  for (std::uint32_t i = head; i < head + entries; ++i) {
    const LogEntry entry = begin[i];
    if (merged > 0 && are_in_one_slice(begin[merged - 1].at(), entry.at(), slice_ticks)) {
      begin[merged - 1] = LogEntry(entry.at(), begin[merged - 1].units() + entry.units());
    } else {
      begin[merged++] = entry;
    }
  }
  entries = merged;
  head = 0;
}

void LogBuffer::merge_summaries(std::uint64_t slice_ticks) noexcept {
  Summary* const begin = summary_begin();
  std::uint32_t merged = 0;
  for (std::uint32_t i = 0; i < summaries; ++i) {
    const Summary& summary = begin[i];
    if (merged > 0 && are_in_one_slice(begin[merged - 1].last, summary.last, slice_ticks)) {
      const std::uint64_t units = begin[merged - 1].units + summary.units;
      begin[merged - 1] = {summary.last, summary.last, std::min(units, kMaxUnits)};
    } else {
      begin[merged++] = summary;
    }
  }
  summaries = merged;
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
  summary_begin()[summaries++] = {begin[0].at(), begin[entries - 1].at(), log_units};
  entries = head = 0;
  log_units = 0;
}

void LogBuffer::add(Ticks at, const NextLog& next) noexcept {
  log_units += next.added;
  LogEntry* const begin = entry_begin();
  if (entries > 0 && (next.moves_newest || begin[head + entries - 1].at() == at)) {
    LogEntry& newest = begin[head + entries - 1];
    newest = LogEntry(at, newest.units() + next.added);
    return;
  }
  if (head + entries == entry_room) {
    std::copy(begin + head, begin + head + entries, begin);
    head = 0;
  }
  begin[head + entries++] = LogEntry(at, next.added);
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
    const std::uint64_t given = std::min(units, newest.units);
    newest.units -= given;
    if (newest.units == 0) --summaries;
    units -= given;
  }
}

std::size_t most_log_bytes(const Limit& limit) noexcept {
  const bool has_summaries = limit.state_kind() == StateKind::kLogAndSummaries;
  if (!has_summaries && limit.state_kind() != StateKind::kLog) return 0;
  const std::size_t summaries = has_summaries ? limit.slices() + 1 : 0;
  const std::size_t entries = std::max<std::size_t>(limit.capacity(), 1);
  return LogBuffer::bytes_for(summaries, entries) +
         LogBuffer::bytes_for(summaries, entries + entries / 3 + 1);
}

}  // namespace sluice::core
