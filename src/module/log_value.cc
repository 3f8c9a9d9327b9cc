#include "module/log_value.h"

namespace sluice::redis_module {
namespace {

namespace format = redis::format;
using core::Ticks;

// Returns the first of [low, high) for which is_it() is true, as it is for all after it.
template <typename IsIt>
std::size_t search(std::size_t low, std::size_t high, const IsIt& is_it) {
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (is_it(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

bool is_consistent(const format::LogHead& head, std::size_t size, bool is_hybrid) noexcept {
  const std::uint64_t blocks_allowed = is_hybrid ? 0 : 1;
  const std::uint64_t base = format::kLogHead.size() + head.blocks * format::kBlocksSize +
                             head.space * format::kSummary.size();
  return head.kind == (is_hybrid ? format::kHybridKind : format::kLogKind) &&
         head.changed < format::kEndOfInstants && head.blocks <= blocks_allowed &&
         head.summaries <= head.space && (head.space == 0 || is_hybrid) &&
         head.front <= head.cached && head.cached <= format::kBlockEntries &&
         head.back <= format::kBlockEntries * head.blocks && head.back <= head.count &&
         head.count - head.back <= head.room && head.head <= head.room &&
         (head.count > 0 || head.before == head.after) &&
         size == base + head.room * format::kLogEntry.size();
}

}  // namespace

std::optional<LogValue> LogValue::open(std::string_view value, bool is_hybrid) noexcept {
  if (value.size() < format::kLogHead.size()) return std::nullopt;
  const format::LogHead head = format::kLogHead.read(value);
  if (!is_consistent(head, value.size(), is_hybrid)) return std::nullopt;
  LogValue log(static_cast<Ticks>(head.changed));
  log.head_ = head;
  log.value_ = value;
  log.forgotten_ = core::Forgotten(static_cast<std::uint32_t>(head.forgotten));
  log.base_ = value.size() - head.room * format::kLogEntry.size();
  if (log.last_ > log.forgotten_.from()) return std::nullopt;
  return log;
}

// No entry is as old as 2^48 ticks at the last change.
Ticks LogValue::instant(std::uint64_t low_bits) const noexcept {
  const std::uint64_t age =
      (static_cast<std::uint64_t>(last_) - low_bits) & (format::kInstantModulus - 1);
  return last_ - static_cast<Ticks>(age);
}

LogValue::Entry LogValue::entry(std::size_t i) const noexcept {
  constexpr std::size_t kSize = format::kLogEntry.size();
  const std::size_t in_ring = head_.count - head_.back;
  const std::size_t at = i < in_ring ? base_ + (head_.head + i) % head_.room * kSize
                                     : format::kLogHead.size() + (i - in_ring) * kSize;
  const format::LogEntry read = format::kLogEntry.read(value_.substr(at, kSize));
  return {instant(read.instant), static_cast<std::uint32_t>(read.sum)};
}

std::size_t LogValue::first_after(std::size_t low, Ticks horizon) const noexcept {
  return search(low, count(), [&](std::size_t i) { return entry(i).at > horizon; });
}

std::size_t LogValue::first_with(std::size_t low, std::uint32_t since,
                                 std::uint64_t units) const noexcept {
  return search(low, count(), [&](std::size_t i) { return entry(i).sum - since >= units; });
}

bool LogValue::append_summaries(Ticks horizon, std::vector<core::Summary>& out) const {
  if (head_.summaries == 0) return true;
  std::uint64_t units = 0;
  std::string_view rest =
      value_.substr(format::kLogHead.size(), head_.summaries * format::kSummary.size());
  while (!rest.empty()) {
    const format::Summary read = format::kSummary.take(rest);
    const core::Summary summary{instant(read.first), instant(read.last),
                                static_cast<std::uint32_t>(read.units)};
    units += summary.units;
    if (summary.first > summary.last) return false;
    if (summary.last > horizon) out.push_back(summary);
  }
  return units <= 2 * kMaxUnits;
}

}  // namespace sluice::redis_module
