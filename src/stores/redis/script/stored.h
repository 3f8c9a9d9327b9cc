#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/algorithms.h"
#include "core/block.h"
#include "core/log.h"
#include "sluice/ledger.h"
#include "stores/redis/client/command.h"
#include "stores/redis/script/format.h"

// The values of counters and blocks as states of core: what Plan reads in replies, the module in
// keys, and `sluice key dump` shows. A function that reads refuses the bytes that scripts refuse
// too.
namespace sluice::redis {

// A bucket or a window.
std::optional<core::Kept<core::State>> read_state(StateKind kind, std::string_view bytes) noexcept;
void append_state(StateKind kind, const core::State& state, core::Forgotten forgotten,
                  std::string& out);

// Sliding counts, whose memory is `counts`. The writer omits empty slices at the end.
std::optional<core::Kept<core::Slices>> read_slices(std::string_view bytes,
                                                    std::vector<std::uint32_t>& counts);
void append_slices(core::Slices slices, core::Forgotten forgotten, std::string& out);

// A log as its value holds it (docs/reference/state-format.md, Logs): a head, summaries of older
// slices, and a ring of entries, of which the newest may be in a block after the head. Entries have
// running sums, so units between two of them need no loop. Borrows the value.
class LogValue {
 public:
  struct Entry {
    core::Ticks at = 0;
    std::uint32_t sum = 0;  // of all units, with this entry

    bool operator==(const Entry&) const = default;
  };

  // A log without entries.
  explicit LogValue(core::Ticks now) noexcept : last_(now) {}
  // Returns nothing if the value is not that of a log of this kind. `most`: the size up to which a
  // script reads it as a whole.
  static std::optional<LogValue> open(StateKind kind, std::string_view value,
                                      std::size_t most = format::kWholeLogSize) noexcept;

  const format::LogHead& head() const noexcept { return head_; }
  std::string_view value() const noexcept { return value_; }
  core::Ticks last() const noexcept { return last_; }
  core::Forgotten forgotten() const noexcept { return forgotten_; }
  std::size_t count() const noexcept { return head_.count; }
  std::uint32_t before() const noexcept { return static_cast<std::uint32_t>(head_.before); }
  std::uint32_t after() const noexcept { return static_cast<std::uint32_t>(head_.after); }
  std::size_t base() const noexcept { return base_; }  // of the ring

  // The oldest and the newest entry as the head has them, where the scripts read them.
  Entry oldest() const noexcept {
    return {instant(head_.oldest), static_cast<std::uint32_t>(head_.first_sum)};
  }
  Entry newest() const noexcept { return {instant(head_.newest), after()}; }
  // Whether the head contradicts the entries. Looks only where the scripts do.
  bool contradicts_ends() const noexcept;

  // The oldest entry is 0.
  Entry entry(std::size_t i) const noexcept;
  // Returns the first entry from `low` on that is later than `horizon`, and the first with which
  // the units since the sum `since` are at least `units`; count() if there is none.
  std::size_t first_after(std::size_t low, core::Ticks horizon) const noexcept;
  std::size_t first_with(std::size_t low, std::uint32_t since, std::uint64_t units) const noexcept;
  core::Summary summary(std::size_t i) const noexcept;

 private:
  core::Ticks instant(std::uint64_t low_bits) const noexcept;

  format::LogHead head_{};
  std::string_view value_;
  core::Ticks last_ = 0;
  core::Forgotten forgotten_;
  std::size_t base_ = format::kLogHead.size();
  bool is_whole_ = true;  // a script reads all of the value
};

// The low bits of an instant, as a log has them.
constexpr std::uint64_t low_bits(core::Ticks at) noexcept {
  return static_cast<std::uint64_t>(at) & (format::kInstantModulus - 1);
}

// Permits, with room for one more, in `memory`. Returns null if the bytes are no permits. Empty
// bytes are those of an absent key.
core::PermitBuffer* read_permits(std::string_view bytes, std::vector<std::uint64_t>& memory);
void append_permits(const core::Permits& permits, std::string& out);

// The head of a budget, and a cell of its ids. Unlike in core, the record of an open hold has the
// end of the hold. Returns false if the bytes are no whole records.
std::optional<format::BudgetHead> read_budget_head(std::string_view bytes) noexcept;
bool read_ids(std::string_view bytes, std::vector<core::IdRecord>& ids);
void append_ids(std::span<const core::IdRecord> ids, std::string& out);

// The block of a counter, whose denials are in `denials`.
std::optional<core::BlockState> read_block(std::string_view bytes,
                                           std::vector<core::Ticks>& denials);
// Reads the fields and values of an entry of a ledger, without the names of its counter. Borrows
// them.
std::optional<LedgerEntry> read_ledger_entry(const Reply& fields) noexcept;
std::vector<std::string> fields_of(const LedgerEntry& entry);

// Writes what follows from the state `before`.
void append_block(const core::NextBlock& next, const core::BlockState& before, std::string& out);

}  // namespace sluice::redis
