#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/log.h"
#include "stores/redis/script/format.h"

namespace sluice::redis_module {

// A log as its value holds it (docs/state-format.md, Logs): a head, summaries of older slices, and
// a ring of entries, of which the newest may be in a block after the head. Entries have running
// sums, so units between two of them need no loop. Borrows the value.
class LogValue {
 public:
  struct Entry {
    core::Ticks at = 0;
    std::uint32_t sum = 0;  // of all units, with this entry
  };

  // A log without entries.
  explicit LogValue(core::Ticks now) noexcept : last_(now) {}
  // Returns nothing if the value is not that of a log of this kind.
  static std::optional<LogValue> open(std::string_view value, bool is_hybrid) noexcept;

  const redis::format::LogHead& head() const noexcept { return head_; }
  std::string_view value() const noexcept { return value_; }
  core::Ticks last() const noexcept { return last_; }
  core::Forgotten forgotten() const noexcept { return forgotten_; }
  std::size_t count() const noexcept { return head_.count; }
  std::uint32_t before() const noexcept { return static_cast<std::uint32_t>(head_.before); }
  std::uint32_t after() const noexcept { return static_cast<std::uint32_t>(head_.after); }
  std::size_t base() const noexcept { return base_; }  // of the ring

  // The oldest entry is 0.
  Entry entry(std::size_t i) const noexcept;
  // Returns the first entry from `low` on that is later than `horizon`, and the first with which
  // the units since the sum `since` are at least `units`; count() if there is none.
  std::size_t first_after(std::size_t low, core::Ticks horizon) const noexcept;
  std::size_t first_with(std::size_t low, std::uint32_t since, std::uint64_t units) const noexcept;
  // Appends the summaries that count after `horizon`. Returns false if one is damaged.
  bool append_summaries(core::Ticks horizon, std::vector<core::Summary>& out) const;

 private:
  core::Ticks instant(std::uint64_t low_bits) const noexcept;

  redis::format::LogHead head_{};
  std::string_view value_;
  core::Ticks last_ = 0;
  core::Forgotten forgotten_;
  std::size_t base_ = redis::format::kLogHead.size();
};

}  // namespace sluice::redis_module
