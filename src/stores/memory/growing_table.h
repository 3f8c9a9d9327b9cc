#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "stores/memory/table.h"

namespace sluice::memory {

// A table that grows without a pause. The counters move from the old table into the new one in the
// order of their groups, a few groups with each insertion. The groups that have moved decide in
// which of the two tables a key is. The memory of the old slots is returned as they move, so that
// both tables together take little more than the new one.
//
// Not thread-safe. Owns the slots, not the blobs they point to. Pointers to slots last until the
// next rebuild(), begin_move() or move_some(). Cost: as Table; move_some() takes about a
// microsecond, and the system's time for a page of memory if it needs one.
class GrowingTable {
 public:
  // A smaller table is rebuilt at once. It has fewer than a thousand counters.
  static constexpr std::size_t kFewGroups = 64;

  std::size_t size() const noexcept { return now_.size() + old_.size(); }
  bool is_moving() const noexcept { return old_.group_count() != 0; }
  bool is_full() const noexcept { return !is_moving() && now_.is_full(); }

  Slot* find(const Fingerprint& key) noexcept {
    if (!is_moving()) [[likely]]
      return now_.find(key);
    return table_of(key).find(key);
  }
  std::uint16_t& owner_of(const Slot& slot) noexcept { return table_of(slot).owner_of(slot); }
  // Adds an absent key with an empty state. The table must not be full.
  Slot& insert(const Fingerprint& key) noexcept { return table_of(key).insert(key); }
  void erase(Slot& slot) noexcept { table_of(slot).erase(slot); }

  // See Table::rebuild(). The table must not be moving.
  template <typename Keep>
  void rebuild(std::size_t groups, Keep keep) {
    now_.rebuild(groups, keep);
  }

  // Begins to move the counters into a table of `groups` groups, at least kFewGroups. The table
  // must not be moving. Moves none yet: the first step needs new pages of memory, which can take
  // the system a quarter of a millisecond each. If it throws std::bad_alloc, nothing has changed.
  void begin_move(std::size_t groups) {
    Table fresh(groups);
    fresh.touch();
    old_ = std::exchange(now_, std::move(fresh));
    moved_ = 0;
  }

  // Moves the counters of the next groups for which keep(Slot&) is true and drops the others. Call
  // it before each insertion while the table is moving. If more counters are kept than the new
  // table has room for, it is rebuilt at once. If that throws std::bad_alloc, nothing has changed.
  template <typename Keep>
  void move_some(Keep keep) {
    if (now_.is_full()) {
      now_.rebuild(Table::groups_for(size() + size() / 4), [](Slot&) { return true; });
    }
    const std::size_t end = std::min(moved_ + kGroupsPerStep, old_.group_count());
    for (; moved_ < end; ++moved_) {
      old_.for_each_of_home(moved_, [&](Slot& slot) {
        if (keep(slot)) {
          Slot& moved = now_.insert(slot.key);
          moved.state = slot.state;
          now_.owner_of(moved) = old_.owner_of(slot);
        }
        old_.erase(slot);
      });
    }
    old_.release_slots_before(moved_);
    if (moved_ == old_.group_count()) old_ = Table();
  }

  template <typename Visit>
  void for_each(Visit visit) {
    now_.for_each(visit);
    old_.for_each(visit);
  }
  // The number of groups that contain counters, and Table::for_each_in() for one of them. Both
  // change while the table moves. A group beyond the last is empty.
  std::size_t group_count() const noexcept {
    return reached() + (is_moving() ? old_.group_count() - moved_ : 0);
  }
  template <typename... Arguments>
  void for_each_in(std::size_t group, Arguments... arguments) {
    if (group < reached()) {
      now_.for_each_in(group, arguments...);
    } else if (group < group_count()) {
      old_.for_each_in(moved_ + group - reached(), arguments...);
    }
  }

 private:
  static constexpr std::size_t kGroupsPerStep = 2;

  // The groups of the new table that counters have been moved into.
  std::size_t reached() const noexcept {
    if (!is_moving()) return now_.group_count();
    return core::ceil_div(moved_ * now_.group_count(), old_.group_count());
  }
  Table& table_of(const Fingerprint& key) noexcept {
    return is_moving() && old_.home_of(key) >= moved_ ? old_ : now_;
  }
  Table& table_of(const Slot& slot) noexcept { return old_.contains(slot) ? old_ : now_; }

  Table now_;
  Table old_;              // without groups unless the table is moving
  std::size_t moved_ = 0;  // the counters with an earlier home in old_ are in now_
};

}  // namespace sluice::memory
