// The part of Shard that selects what to drop at a bound.

#include <algorithm>

#include "core/algorithms.h"
#include "stores/memory/shard.h"

namespace sluice::memory {
namespace {

// Every counter of so many groups is looked at. Then more groups are searched for counters of the
// limit that uses the most, until so many of them have been compared.
constexpr std::size_t kGroupsLookedAt = 2;
constexpr std::size_t kGroupsSearched = 64;
constexpr std::size_t kCompared = 24;

std::uint64_t units_of(const core::Log& log) noexcept {
  std::uint64_t units = log.units;
  for (const core::Summary& older : log.older) units += older.units;
  return units;
}

// Returns the units that a counter of a limit has remaining; those of a log or of permits as of its
// last change, because there may be many. Returns 0 if the counter is not of the limit's kind.
std::uint64_t remaining(const PackedState& state, core::Forgotten forgotten, const Limit& limit,
                        core::Ticks now) noexcept {
  const auto peek = [&](const auto& held) {
    return core::step(Verb::kPeek, limit, core::Kept{held, forgotten}, now, 0).answer.remaining;
  };
  if (SliceBlob* const slices = state.slices()) {
    if (limit.state_kind() != StateKind::kSlices) return 0;
    std::uint32_t converted = 0;
    return peek(core::sliding_window_counter::on_grid(limit, slices->view(), converted));
  }
  if (core::LogBuffer* const log = state.log()) {
    return limit.capacity() - std::min<std::uint64_t>(limit.capacity(), units_of(log->view()));
  }
  if (core::PermitBuffer* const permits = state.permits()) {
    return limit.capacity() - std::min(limit.capacity(), permits->units);
  }
  return core::has_fixed_size(limit) ? peek(state.state()) : 0;
}

bool owns_blob(const Slot& slot) noexcept {
  const PackedState& state = slot.state;
  return state.slices() != nullptr || state.log() != nullptr || state.permits() != nullptr;
}

// Calls visit(slot, expiry) with the counter pinned, unless a thread holds it or has pinned it. If
// it waits, another thread's hold ends first. If visit() returns true, it has erased the counter.
template <typename Visit>
void visit_pinned(Slot& slot, bool waits, Visit visit) {
  const std::uint32_t expiry = waits ? slot.state.pin() : slot.state.try_mark(PackedState::kPinned);
  if (!PackedState::is_mark(expiry) && !visit(slot, expiry)) slot.state.leave(expiry);
}

}  // namespace

// Replaces the victim by a counter if that one is to be evicted instead.
void Shard::consider(Slot& slot, std::uint32_t expiry, Resource resource, core::Ticks now,
                     Victim& victim) noexcept {
  if (resource == Resource::kBytes && !owns_blob(slot)) return;
  const LimitUsage::Index limit = table_.owner_of(slot);
  const std::uint64_t left =
      remaining(slot.state, PackedState::forgotten_of(expiry), usage_.limit(limit), now);
  if (limit != victim.limit) {
    usage_.note_largest(limit, resource);
    if (usage_.used(limit, resource) > usage_.used(victim.limit, resource)) {
      victim = {&slot, limit, left, expiry, 1};
    }
    return;
  }
  ++victim.compared;
  if (left < victim.remaining) return;
  if (left > victim.remaining || expiry < victim.expiry) {
    victim.slot = &slot;
    victim.remaining = left;
    victim.expiry = expiry;
  }
}

// Evicts a counter of the limit that uses the most, or `found` if the next groups have none.
void Shard::evict_from_largest(const Victim& found, Resource resource, core::Ticks now) noexcept {
  const LimitUsage::Index largest = usage_.largest(resource);
  Victim victim = found.limit == largest ? found : Victim{};
  const auto compare = [&](Slot& slot, std::uint32_t expiry) {
    consider(slot, expiry, resource, now, victim);
    return false;
  };
  for (std::size_t i = 0; i < kGroupsSearched && victim.compared < kCompared; ++i) {
    table_.for_each_in(hand_, largest, [&](Slot& slot) { visit_pinned(slot, false, compare); });
    advance_hand();
  }
  Slot& evicted = victim.slot != nullptr ? *victim.slot : *found.slot;
  evicted.state.pin();
  erase(evicted);
  ++evictions_;
}

// Drops the untouched counters of the next groups. If there are none, evicts one. Continues while
// all counters that it finds are in use; from the second round on, it waits for other threads.
void Shard::evict(core::Ticks now) noexcept {
  const std::uint64_t swept_before = swept_;
  Victim victim;
  const auto visit = [&](Slot& slot, std::uint32_t expiry) {
    const bool is_forgotten = PackedState::forgotten_of(expiry).is_past(now);
    if (is_forgotten) {
      erase(slot);
      ++swept_;
    } else {
      consider(slot, expiry, Resource::kCounters, now, victim);
    }
    return is_forgotten;
  };
  for (std::size_t looked = 0; looked < kGroupsLookedAt || victim.slot == nullptr; ++looked) {
    const bool waits = looked >= table_.group_count();
    table_.for_each_in(hand_, [&](Slot& slot) { visit_pinned(slot, waits, visit); });
    advance_hand();
    if (swept_ != swept_before) return;
  }
  evict_from_largest(victim, Resource::kCounters, now);
}

// Drops counters that own blobs: untouched ones of the next groups, or else one that this request
// does not use, if there is one. In the second round it waits for other threads.
bool Shard::evict_blob(core::Ticks now) noexcept {
  const std::uint64_t swept_before = swept_;
  Victim victim;
  const auto visit = [&](Slot& slot, std::uint32_t expiry) {
    const bool is_dropped = owns_blob(slot) && PackedState::forgotten_of(expiry).is_past(now);
    if (is_dropped) {
      erase(slot);
      ++swept_;
    } else {
      consider(slot, expiry, Resource::kBytes, now, victim);
    }
    return is_dropped;
  };
  for (std::size_t looked = 0; looked < 2 * table_.group_count(); ++looked) {
    if (looked >= kGroupsLookedAt && victim.slot != nullptr) break;
    const bool waits = looked >= table_.group_count();
    table_.for_each_in(hand_, [&](Slot& slot) { visit_pinned(slot, waits, visit); });
    advance_hand();
    if (swept_ != swept_before) return true;
  }
  if (victim.slot == nullptr) return false;
  evict_from_largest(victim, Resource::kBytes, now);
  return true;
}

}  // namespace sluice::memory
