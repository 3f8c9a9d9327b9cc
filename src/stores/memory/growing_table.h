#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "stores/memory/table.h"

namespace sluice::memory {

// A table that grows without a pause. The counters move from the old table into the new one in the
// order of their groups, a few groups with each insertion. The groups that have moved decide in
// which of the two tables a key is. The memory of the old slots is returned as they move, so that
// both tables together take little more than the new one.
//
// Thread-safety: take() from any thread; for all else hold the lock of the shard. A table that has
// moved is kept empty and used again, because a thread in take() may look at it at any time. Owns
// the slots, not the blobs they point to. Pointers to slots last until the next rebuild(),
// begin_move() or move_some(). Cost: as Table; move_some() takes about a microsecond, and the
// system's time for a page of memory if it needs one.
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
  // See Table::take().
  [[gnu::always_inline]] Slot* take(const Fingerprint& key, bool gives_up,
                                    std::uint32_t& expiry) noexcept {
    TableView view;
    const bool is_old = !old_view_.is_empty() && old_view_.read(view) && is_in_old(key, view.count);
    if (!is_old && !now_view_.read(view)) return nullptr;
    return Table::take(view, key, gives_up, expiry);
  }
  std::uint16_t& owner_of(const Slot& slot) noexcept { return table_of(slot).owner_of(slot); }
  // Adds an absent key with an empty state. The table must not be full.
  Slot& insert(const Fingerprint& key, std::uint32_t expiry = 1) noexcept {
    return table_of(key).insert(key, expiry);
  }
  void erase(Slot& slot) noexcept { table_of(slot).erase(slot); }

  // Moves every counter for which keep(slot, Forgotten) is true into a table of `groups` groups,
  // which must have room for them. If it throws std::bad_alloc, nothing has changed. The table must
  // not be moving.
  template <typename Keep>
  void rebuild(std::size_t groups, Keep keep) {
    put_aside(now_.rebuild(make(groups), keep));
    publish();
  }

  // Begins to move the counters into a table of `groups` groups, at least kFewGroups. The table
  // must not be moving. Moves none yet: the first step needs new pages of memory, which can take
  // the system a quarter of a millisecond each. If it throws std::bad_alloc, nothing has changed.
  void begin_move(std::size_t groups) {
    Table fresh = make(groups);
    fresh.touch();
    old_ = std::exchange(now_, std::move(fresh));
    moved_.store(0, std::memory_order_relaxed);
    publish();
  }

  // Moves the counters of the next groups for which keep(slot, Forgotten) is true and drops the
  // others. Call it before each insertion while the table is moving. If more counters are kept than
  // the new table has room for, it is rebuilt at once. If that throws std::bad_alloc, nothing has
  // changed.
  template <typename Keep>
  void move_some(Keep keep) {
    if (now_.is_full()) {
      const auto keep_all = [](const Slot&, core::Forgotten) { return true; };
      put_aside(now_.rebuild(make(Table::groups_for(size() + size() / 4)), keep_all));
      publish();
    }
    std::size_t group = moved();
    const std::size_t end = std::min(group + kGroupsPerStep, old_.group_count());
    for (; group < end; ++group) {
      old_.for_each_of_home(group, [&](Slot& slot) { old_.move(slot, now_, keep); });
    }
    moved_.store(group, std::memory_order_relaxed);
    old_.release_slots_before(group);
    if (group < old_.group_count()) return;
    put_aside(std::exchange(old_, Table()));
    publish();
  }

  template <typename Visit>
  void for_each(Visit visit) {
    now_.for_each(visit);
    old_.for_each(visit);
  }
  // Visits each counter whose key's `high` is from `first` to `last`. A counter stays in that range
  // when the table moves, so that calls for all ranges visit each counter once.
  template <typename Visit>
  void for_each_between(std::uint64_t first, std::uint64_t last, Visit visit) {
    now_.for_each_between(first, last, visit);
    old_.for_each_between(first, last, visit);
  }
  // The number of groups that contain counters, and Table::for_each_in() for one of them. Both
  // change while the table moves. A group beyond the last is empty.
  std::size_t group_count() const noexcept {
    return reached() + (is_moving() ? old_.group_count() - moved() : 0);
  }
  template <typename... Arguments>
  void for_each_in(std::size_t group, Arguments... arguments) {
    if (group < reached()) {
      now_.for_each_in(group, arguments...);
    } else if (group < group_count()) {
      old_.for_each_in(moved() + group - reached(), arguments...);
    }
  }

 private:
  static constexpr std::size_t kGroupsPerStep = 2;

  // The groups of the new table that counters have been moved into.
  std::size_t reached() const noexcept {
    if (!is_moving()) return now_.group_count();
    return core::ceil_div(moved() * now_.group_count(), old_.group_count());
  }
  Table& table_of(const Fingerprint& key) noexcept {
    return is_moving() && is_in_old(key, old_.group_count()) ? old_ : now_;
  }
  Table& table_of(const Slot& slot) noexcept { return old_.contains(slot) ? old_ : now_; }

  bool is_in_old(const Fingerprint& key, std::size_t groups) const noexcept {
    return Table::home_of(key, groups) >= moved();
  }
  std::size_t moved() const noexcept { return moved_.load(std::memory_order_relaxed); }

  // Returns an empty table, a new one only if none of about that size is unused. So there are at
  // most a few of each size. Throws std::bad_alloc.
  Table make(std::size_t groups) {
    unused_.reserve(unused_.size() + kTables);
    const auto found = std::find_if(unused_.begin(), unused_.end(), [&](const Table& table) {
      return table.capacity() >= groups && table.capacity() / 2 <= groups;
    });
    if (found == unused_.end()) return Table(groups);
    Table table = std::exchange(*found, std::move(unused_.back()));
    unused_.pop_back();
    table.use_again(groups);
    return table;
  }
  void put_aside(Table table) noexcept {
    if (table.capacity() == 0) return;
    table.clear();
    unused_.push_back(std::move(table));  // make() has made room
  }
  void publish() noexcept {
    now_view_.write(now_.view());
    old_view_.write(old_.view());
  }

  static constexpr std::size_t kTables = 3;  // now_, old_ and one that is being made

  // In a cache line that changes only when the table does.
  alignas(64) SharedView now_view_;
  SharedView old_view_;
  Table now_;
  Table old_;                          // without groups unless the table is moving
  std::atomic<std::size_t> moved_{0};  // the counters with an earlier home in old_ are in now_
  std::vector<Table> unused_;
};

}  // namespace sluice::memory
