#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/log.h"
#include "core/sliding_window_counter.h"
#include "sluice/store.h"
#include "stores/memory/blocks.h"
#include "stores/memory/limit_usage.h"
#include "stores/memory/lock.h"
#include "stores/memory/table.h"

namespace sluice::memory {

// The states without a fixed size, each in one piece of memory that a Shard owns: a SliceBlob, a
// core::LogBuffer or a core::PermitBuffer. Plain memory without a destructor.

// A sliding counter: a header, then slices + 1 counts, newest first. 64 bytes for ten slices.
struct SliceBlob {
  core::Ticks last = 0;  // instant of the last change
  std::uint64_t period = 0;
  std::uint32_t slices = 0;
  std::uint32_t newest = 0;  // the first count; the others follow

  static std::size_t bytes_for(std::size_t slice_count) noexcept {
    return sizeof(SliceBlob) + slice_count * sizeof(std::uint32_t);
  }
  std::size_t bytes() const noexcept { return bytes_for(slices); }
  std::span<std::uint32_t> counts() noexcept { return {&newest, std::size_t{slices} + 1}; }
  core::SliceGrid grid() const noexcept { return {period, slices}; }
  core::Slices view() noexcept { return {counts(), last, grid()}; }
};
static_assert(sizeof(SliceBlob) == 24);

// Pieces of one cache line each, for the many small states of a shard. malloc would put its own
// data next to a state, which takes a second cache line. The pages of the pieces are few and large.
//
// Not thread-safe. Owns the memory, and keeps it for further pieces until it is destroyed.
class Cells {
 public:
  static constexpr std::size_t kBytes = 64;

  // Returns a piece with unspecified bytes. Throws std::bad_alloc.
  void* take();
  void give(void* cell) noexcept;

 private:
  struct Free {
    Free* next;
  };

  Free* free_ = nullptr;
  std::byte* fresh_ = nullptr;  // the part of the last chunk that is not in use yet
  std::size_t fresh_bytes_ = 0;
  std::size_t total_bytes_ = 0;
  std::vector<Pages> chunks_;
};

// The bytes that shards may take beyond their own share. Thread-safe.
class SharedBytes {
 public:
  explicit SharedBytes(std::size_t bytes) noexcept : left_(bytes) {}
  std::size_t left() const noexcept { return left_.load(std::memory_order_relaxed); }
  // Takes all of `bytes`, or takes none and returns false.
  bool take(std::size_t bytes) noexcept;
  void give(std::size_t bytes) noexcept { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> left_;
};

// One part of a memory store: a table of counters, bounded in counters and in the bytes of their
// windows. At its bound it drops untouched counters first. If it finds none, it
// evicts a counter of the limit that uses the most: of a few of them, the one with the most units
// remaining, and of equal ones the one that would be untouched first.
//
// Thread-safety: take() from any thread; for every other call hold `mutex`. A state is read and
// changed only while its counter is held (by take()) or pinned (under the mutex). A thread that
// holds a counter waits neither for the mutex nor, for long, for another counter; a thread with the
// mutex waits for those that are held. So no two threads wait for each other. Owns its blobs.
class alignas(64) Shard {
 public:
  Lock mutex;
  Blocks blocks;  // of the counters in this shard

  // Throws std::bad_alloc.
  Shard(std::size_t max_keys, std::size_t own_bytes, SharedBytes& shared)
      : blocks(own_bytes / kBlockShare),
        usage_(max_keys),
        max_keys_(max_keys),
        own_bytes_(own_bytes),
        shared_(shared) {}
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  Slot* find(const Fingerprint& key) noexcept { return table_.find(key); }
  // See Table::take().
  [[gnu::always_inline]] Slot* take(const Fingerprint& key, bool gives_up,
                                    std::uint32_t& expiry) noexcept {
    return table_.take(key, gives_up, expiry);
  }
  // Returns the slot of a charge's key, and inserts it with that expiry if it is absent, which
  // moves or drops other slots. Throws std::bad_alloc.
  Slot& find_or_insert(const Fingerprint& key, const Charge& charge, core::Ticks now,
                       std::uint32_t expiry = 1);
  void erase(Slot& slot) noexcept;

  // Makes the empty shard's table large enough for so many counters, at most its bound. Throws
  // std::bad_alloc.
  void expect(std::size_t counters);
  // Adds an absent counter of a snapshot, pinned. Returns null if it is there. Throws
  // std::bad_alloc.
  Slot* restore(const Fingerprint& key, std::uint64_t limit_id, const Limit& limit,
                core::Ticks now);
  // Returns memory for the window of a restored counter, or null if the bytes are exhausted.
  void* allocate_for(const Slot& slot, std::size_t bytes, core::Ticks now) {
    return allocate(table_.owner_of(slot), bytes, 0, now);
  }
  // Calls visit(slot, expiry, index of its limit) for each counter whose key's `high` is from
  // `first` to `last`. The counter is pinned meanwhile.
  template <typename Visit>
  void for_each_between(std::uint64_t first, std::uint64_t last, Visit visit) {
    table_.for_each_between(first, last, [&](Slot& slot) {
      const Pin pin(slot.state);
      visit(slot, pin.expiry, LimitUsage::Index{table_.owner_of(slot)});
    });
  }
  const LimitUsage& usage() const noexcept { return usage_; }
  std::size_t group_count() const noexcept { return table_.group_count(); }

  // Gives the slot a blob of zero counts on the limit's grid. Returns null if the bytes are
  // exhausted.
  SliceBlob* make_slices(Slot& slot, const Limit& limit, core::Ticks now);
  // Gives the slot a log with its previous entries and room for one more entry (and summary).
  // Returns null if the bytes are exhausted.
  core::LogBuffer* make_room_in_log(Slot& slot, const Limit& limit, core::Ticks now);
  // Gives the slot its previous permits and room for one more. Returns null if the bytes are
  // exhausted.
  core::PermitBuffer* make_room_for_permit(Slot& slot, const Limit& limit, core::Ticks now);
  // Makes room in a log for `next` with the bytes that it has: see LogBuffer::merge().
  void merge_log(Slot& slot, const core::NextLog& next, const Limit& limit) noexcept;

  std::size_t size() const noexcept { return table_.size(); }
  std::size_t blob_bytes() const noexcept { return blob_bytes_; }
  std::uint64_t evictions() const noexcept { return evictions_; }
  std::uint64_t swept() const noexcept { return swept_; }
  std::uint64_t merged_logs() const noexcept { return merged_logs_; }

 private:
  static constexpr std::size_t kBlockShare = 4;  // of the shard's own bytes, in addition

  struct Pin {
    PackedState& state;
    const std::uint32_t expiry;

    explicit Pin(PackedState& pinned) noexcept : state(pinned), expiry(pinned.pin()) {}
    ~Pin() { state.leave(expiry); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
  };
  struct Victim {
    Slot* slot = nullptr;
    LimitUsage::Index limit = LimitUsage::kNone;
    std::uint64_t remaining = 0;
    std::uint32_t expiry = 0;
    std::size_t compared = 0;  // the counters of the limit that it was selected from
  };

  Slot& insert(const Fingerprint& key, std::uint32_t expiry, core::Ticks now);
  void make_room(core::Ticks now);
  void sweep(core::Ticks now) noexcept;
  bool keep_moved(Slot& slot, core::Forgotten forgotten, core::Ticks now) noexcept;
  void evict(core::Ticks now) noexcept;
  bool evict_blob(core::Ticks now) noexcept;
  void evict_from_largest(const Victim& found, Resource resource, core::Ticks now) noexcept;
  void consider(Slot& slot, std::uint32_t expiry, Resource resource, core::Ticks now,
                Victim& victim) noexcept;
  void advance_hand() noexcept { hand_ = hand_ + 1 >= table_.group_count() ? 0 : hand_ + 1; }

  void* allocate(LimitUsage::Index limit, std::size_t bytes, std::size_t kept, core::Ticks now,
                 bool may_evict = true);
  bool reserve(std::size_t bytes) noexcept;
  void release(std::size_t bytes) noexcept;
  void free_blob(Slot& slot) noexcept;
  std::size_t beyond_own(std::size_t bytes) const noexcept {
    return bytes > own_bytes_ ? bytes - own_bytes_ : 0;
  }

  GrowingTable table_;
  Cells cells_;
  LimitUsage usage_;
  std::size_t hand_ = 0;  // the group with which the next search for room begins
  std::size_t blob_bytes_ = 0;
  std::uint64_t evictions_ = 0;
  std::uint64_t swept_ = 0;
  std::uint64_t merged_logs_ = 0;
  const std::size_t max_keys_;
  const std::size_t own_bytes_;
  SharedBytes& shared_;
};

}  // namespace sluice::memory
