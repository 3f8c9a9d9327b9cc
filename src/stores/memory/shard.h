#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/block.h"
#include "core/log.h"
#include "core/sliding_window_counter.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"
#include "stores/memory/fingerprint.h"
#include "stores/memory/lock.h"
#include "stores/memory/table.h"

namespace sluice::memory {

// What a shard has a bound for.
enum class Resource : std::uint8_t { kCounters, kBytes };

// Identifies the limit of a charge: by its id, or else by its numbers.
std::uint64_t limit_id_of(const Charge& charge) noexcept;

// How much of a shard each limit uses. A limit is what RuleCharge::limit_id names, or else all
// counters of a keyspace with the same numbers. If there is no place for another limit, it shares
// the place of one that is there; shards of usual size have room for hundreds.
//
// Not thread-safe. Cost: constant; it allocates nothing after the constructor.
class LimitUsage {
 public:
  using Index = std::uint16_t;
  static constexpr Index kNone = 0;

  // Throws std::bad_alloc.
  explicit LimitUsage(std::size_t max_keys);

  // Counts a new counter of the charge's limit and returns the limit's index, which stays the same
  // until the limit has no counter.
  Index add_counter(const Charge& charge) noexcept;
  Index add_counter(std::uint64_t id, const Limit& limit) noexcept;
  void remove_counter(Index index) noexcept { --at(index).counters; }
  void add_bytes(Index index, std::size_t bytes) noexcept;
  void remove_bytes(Index index, std::size_t bytes) noexcept { at(index).bytes -= bytes; }

  // Returns the limit as the newest of its counters had it.
  std::uint64_t id(Index index) const noexcept { return at(index).id; }
  const Limit& limit(Index index) const noexcept { return at(index).limit; }
  std::uint64_t used(Index index, Resource resource) const noexcept {
    return resource == Resource::kCounters ? at(index).counters : at(index).bytes;
  }

  // Returns the limit that uses the most, as far as note_largest() has seen.
  Index largest(Resource resource) const noexcept { return largest_[number_of(resource)]; }
  // Replaces the largest limit by this one if this one uses more.
  void note_largest(Index index, Resource resource) noexcept;

 private:
  struct Place {
    std::uint64_t id = 0;
    std::uint64_t counters = 0;  // 0: the place is free
    std::uint64_t bytes = 0;
    Limit limit;
  };

  static std::size_t number_of(Resource resource) noexcept {
    return static_cast<std::size_t>(resource);
  }
  std::size_t place_for(std::uint64_t id) const noexcept;
  Place& at(Index index) noexcept { return places_[index]; }
  const Place& at(Index index) const noexcept { return places_[index]; }

  std::vector<Place> places_;  // after the first, which is nobody's, in sets of kWays
  Index largest_[2] = {kNone, kNone};
};

// The blocks of a shard's counters, and the denials that count for them, by the name of the
// counter. Only denials and blocks by hand make entries. Bounded in bytes: beyond them it drops an
// entry of the limit whose entries take the most, so that keys that one limit denies free the
// keys of another only while those take more; blocks by hand only for other blocks by hand. Of a
// few entries of that limit it drops a key that is not blocked before one that is. Each new entry
// also drops a few forgotten entries.
//
// Not thread-safe: the shard's lock protects it.
class Blocks {
 public:
  // Throws std::bad_alloc.
  explicit Blocks(std::size_t max_bytes);

  bool contains(const Fingerprint& key) const noexcept {
    return size_ > 0 && part_of(key).contains(key);
  }
  core::BlockAnswer look(const Fingerprint& key, core::Ticks now) const noexcept;
  // Both need a charge with a block.
  // Counts a denial of a key that is not blocked. Without memory it is not counted.
  core::BlockAnswer deny(const Fingerprint& key, const Charge& charge, core::Ticks now) noexcept;
  // Blocks a key for a time. Returns false if memory is exhausted.
  bool block(const Fingerprint& key, const Charge& charge, core::Ticks time,
             core::Ticks now) noexcept;
  void erase(const Fingerprint& key) noexcept;

  // An entry as a snapshot contains it. Borrows its texts and denials.
  struct Known {
    core::BlockState state;
    std::uint32_t limit = 0;  // Pool::limit
    bool by_hand = false;
    std::string_view key = {}, tag = {};
    Keyspace keyspace = Keyspace::kCallers;
    bool has_name = false;  // it was blocked, so key and tag are known
  };
  // The entries are in parts, which take about kPartBytes at most and which no entry leaves.
  std::size_t parts() const noexcept { return parts_.size(); }
  // Calls visit(key, Known) for each entry of a part.
  template <typename Visit>
  void for_each_in(std::size_t part, Visit visit) const {
    for (const auto& [key, entry] : parts_[part]) {
      Known known{entry.state(), pools_[entry.pool].limit, pools_[entry.pool].by_hand};
      if (const Name* const name = entry.name.get()) {
        known.key = name->key;
        known.tag = name->tag;
        known.keyspace = name->keyspace;
        known.has_name = true;
      }
      visit(key, known);
    }
  }
  // Adds an absent entry. Returns false if it is there. Throws std::bad_alloc.
  bool restore(const Fingerprint& key, const Known& known, core::Ticks now);

  // Appends the keys of a part that are blocked at `now` until there are `most`.
  void list(std::size_t part, core::Ticks now, std::size_t most,
            std::vector<BlockedKey>& out) const;

  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint64_t evictions() const noexcept { return evictions_; }  // of entries with an effect
  std::uint64_t freed() const noexcept { return freed_; }          // those that were blocked

  // About what an entry takes without its denials.
  static constexpr std::size_t kEntryBytes = 160;
  static constexpr std::size_t kPartBytes = std::size_t{256} << 10;
  // Of key and tag together; longer ones are not kept.
  static constexpr std::size_t kLongestName = 2048;

 private:
  struct Name {
    std::string key;
    std::string tag;
    Keyspace keyspace;

    std::size_t bytes() const noexcept { return sizeof(Name) + key.capacity() + tag.capacity(); }
  };
  static constexpr std::uint32_t kNoPool = ~std::uint32_t{0};
  struct Entry {
    core::Ticks last = 0, end = 0, grown = 0, forgotten = 0;
    std::vector<core::Ticks> denials;
    std::unique_ptr<const Name> name;  // of a key that was blocked
    std::uint32_t pool = kNoPool;      // in pools_
    std::uint32_t at = 0;              // in Pool::entries

    core::BlockState state() const noexcept { return {last, end, grown, forgotten, denials}; }
    std::size_t bytes() const noexcept {
      return kEntryBytes + denials.capacity() * sizeof(core::Ticks) + (name ? name->bytes() : 0);
    }
  };
  struct Hash {
    std::size_t operator()(const Fingerprint& key) const noexcept { return key.low; }
  };
  using Entries = std::unordered_map<Fingerprint, Entry, Hash>;
  using Node = Entries::value_type;
  // The entries of one limit: those that are blocked by hand, or the others.
  struct Pool {
    std::uint32_t limit = 0;  // names the limit, as far as 32 bits can
    bool by_hand = false;
    std::size_t bytes = 0;
    std::size_t hand = 0;  // the entry with which the next search begins
    std::vector<Node*> entries;
  };

  Entries& part_of(const Fingerprint& key) noexcept {
    return parts_[(key.high >> 32) & (parts_.size() - 1)];
  }
  const Entries& part_of(const Fingerprint& key) const noexcept {
    return parts_[(key.high >> 32) & (parts_.size() - 1)];
  }
  Node* node_of(const Fingerprint& key, std::uint32_t pool, core::Ticks now);
  void write(Node& node, const Charge& charge, const core::NextBlock& next, std::uint32_t pool);
  static void keep_name(Entry& entry, const Charge& charge);
  std::uint32_t pool_of(std::uint32_t limit, bool by_hand);
  void enter(Node& node, std::uint32_t pool);
  void leave(Entry& entry) noexcept;
  void count(const Entry& entry) noexcept;
  void uncount(const Entry& entry) noexcept;
  bool make_room(bool by_hand, core::Ticks now) noexcept;
  void note_lost(core::Ticks end, core::Ticks forgotten, core::Ticks now) noexcept;
  void drop_forgotten(core::Ticks now) noexcept;
  void drop(Node& node) noexcept;

  std::vector<Entries> parts_;
  std::vector<Pool> pools_;  // one without entries is free
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
  std::size_t swept_pool_ = 0, swept_at_ = 0;  // where the next search for forgotten entries begins
  std::uint64_t evictions_ = 0;
  std::uint64_t freed_ = 0;
  const std::size_t max_bytes_;
};

// The states without a fixed size, each in one piece of memory that a Shard owns: a SliceBlob, a
// core::LogBuffer, a core::PermitBuffer or a core::BudgetBuffer. Plain memory without a destructor.

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
  void* free_ = nullptr;        // begins with the address of the next one
  std::byte* fresh_ = nullptr;  // the part of the last chunk that is not in use yet
  std::size_t fresh_bytes_ = 0;
  std::size_t total_bytes_ = 0;
  std::vector<Pages> chunks_;
};

// The bytes that shards may take beyond their own share. Thread-safe.
class SharedBytes {
 public:
  explicit SharedBytes(std::size_t bytes) noexcept : total_(bytes), left_(bytes) {}
  std::size_t total() const noexcept { return total_; }
  std::size_t left() const noexcept { return left_.load(std::memory_order_relaxed); }
  // Takes all of `bytes`, or takes none and returns false.
  bool take(std::size_t bytes) noexcept;
  void give(std::size_t bytes) noexcept { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const std::size_t total_;
  std::atomic<std::size_t> left_;
};

// One part of a memory store: a table of counters, bounded in counters and in the bytes of their
// windows. At its bound it drops untouched counters first. If it finds none, it
// evicts a counter of the limit that uses the most: of a few of them, the one with the most units
// remaining, and of equal ones the one that would be untouched first. For the bytes of others it
// evicts no budget, whose units may not come back for a year.
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
  Shard(std::size_t max_keys, std::size_t own_bytes, SharedBytes& shared,
        Ledger* of_budgets = nullptr)
      : blocks(own_bytes / kBlockShare),
        usage_(max_keys),
        max_keys_(max_keys),
        own_bytes_(own_bytes),
        shared_(shared),
        ledger_(of_budgets) {}
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

  // Makes the empty shard's table large enough for `counters` counters, at most its bound. Throws
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
  // The same for a budget. Null, too, if one budget may not have as many.
  void* allocate_budget(std::size_t bytes, core::Ticks now);
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
  Ledger* ledger() const noexcept { return ledger_; }  // of the budgets; null: none
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
  // Gives the slot its previous ids and holds and room for `next`. Returns null if the bytes are
  // exhausted.
  core::BudgetBuffer* make_room_in_budget(Slot& slot, const Limit& limit,
                                          const core::NextBudget& next, core::Ticks now);
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
  void sweep_some(core::Ticks now) noexcept;
  void drop_untouched(Slot& slot, core::Ticks now) noexcept;
  bool keep_moved(Slot& slot, core::Forgotten forgotten, core::Ticks now) noexcept;
  bool evict(Resource resource, core::Ticks now) noexcept;
  void evict_from_largest(const Victim& found, Resource resource, core::Ticks now) noexcept;
  void consider(Slot& slot, std::uint32_t expiry, Resource resource, core::Ticks now,
                Victim& victim) noexcept;
  void advance_hand() noexcept { hand_ = hand_ + 1 >= table_.group_count() ? 0 : hand_ + 1; }

  void* allocate(LimitUsage::Index limit, std::size_t bytes, std::size_t kept, core::Ticks now,
                 bool may_evict = true);
  bool can_make_room(std::size_t bytes, std::size_t kept) const noexcept;
  void* take_piece(std::size_t bytes, std::size_t kept, core::Ticks now, bool may_evict);
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
  std::size_t budget_bytes_ = 0;  // of blob_bytes_
  std::uint64_t evictions_ = 0;
  std::uint64_t swept_ = 0;
  std::uint64_t merged_logs_ = 0;
  const std::size_t max_keys_;
  const std::size_t own_bytes_;
  SharedBytes& shared_;
  Ledger* const ledger_;
};

}  // namespace sluice::memory
