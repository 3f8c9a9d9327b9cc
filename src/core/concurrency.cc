#include "core/concurrency.h"

#include <algorithm>

namespace sluice::core {

void PermitBuffer::copy(PermitBuffer& from) noexcept {
  last = from.last;
  first_end = from.first_end;
  last_end = from.last_end;
  units = from.units;
  count = from.count;
  std::copy_n(from.begin(), count, begin());
}

void PermitBuffer::write(const NextPermits& next, Ticks at) noexcept {
  last = at;
  const bool is_plain = next.change == Verb::kTake && next.live == count;
  if (!is_plain) rewrite(next, at);
  if (next.change == Verb::kTake) {
    add(next.end, next.id, static_cast<std::uint32_t>(next.units));
  }
}

void PermitBuffer::add(Ticks end, const PermitId& id, std::uint32_t entry_units) noexcept {
  first_end = count == 0 ? end : std::min(first_end, end);
  last_end = count == 0 ? end : std::max(last_end, end);
  units += entry_units;
  begin()[count++] = {end, id, entry_units};
}

// Makes every change except a new permit, and drops what has ended.
void PermitBuffer::rewrite(const NextPermits& next, Ticks at) noexcept {
  const std::uint32_t before = count;
  if (next.change == Verb::kRefund) give_back(next.units, at);
  count = units = 0;
  first_end = last_end = 0;
  for (std::uint32_t i = 0; i < before; ++i) {
    const PermitEntry& entry = begin()[i];
    const bool is_asked = next.id == entry.id;
    if (entry.end <= at || entry.units == 0) continue;
    if (is_asked && next.change == Verb::kRelease) continue;
    add(is_asked && next.change == Verb::kExtend ? next.end : entry.end, entry.id, entry.units);
  }
}

// Takes units from the newest live permits; they can have 0 units then.
void PermitBuffer::give_back(std::uint64_t given, Ticks at) noexcept {
  for (std::uint32_t i = count; i-- > 0 && given > 0;) {
    PermitEntry& entry = begin()[i];
    if (entry.end <= at) continue;
    const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(given, entry.units));
    entry.units -= part;
    given -= part;
  }
}

}  // namespace sluice::core
