// The hash table of a shard: groups of fifteen slots of 40 bytes, filled up to seven eighths, which
// grows by a quarter. With ten million counters a counter takes less than 64 bytes; a general hash
// map doubles its size when it grows and takes up to 92 bytes for less data. The tags of a group
// are one line of sixteen bytes; while they are read, the most likely slot of the key is
// prefetched. The lock of a counter is in its cache line: the expiry is the lock, a thread puts a
// mark in its place and later the next expiry. So requests on counters that exist need no lock of
// the shard. A look-up may read a table while another thread moves it; the memory of moved tables
// is therefore kept and used again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/budget.h"
#include "core/concurrency.h"
#include "core/log.h"
#include "core/state.h"
#include "stores/memory/fingerprint.h"
#include "stores/memory/lock.h"

namespace sluice::memory {

struct SliceBlob;

// A core::State in 20 bytes, or a pointer to a window's memory, and when the counter is forgotten
// (core::Forgotten). The expiry is also the lock of the counter: a thread puts a mark in its place
// before it reads or changes the rest, and puts back the expiry or the next one. So a decision
// needs no other cache line.
//
//   word a: last (52 bits) | low 12 bits of tag      or the pointer
//   word b: aux (45) | high 17 bits of tag | 0 | 0   or 2 << 62 (slices), 3 << 62 (log), 1 << 62
//   (permits), 1 << 62 | 1 (budget) units (32), expiry (32)
struct PackedState {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint32_t units = 0;
  std::uint32_t expiry = 0;

  // The mark of a thread with the lock of the shard: so the thread knows its own counters. They are
  // neither swept nor evicted.
  static constexpr std::uint32_t kPinned = 0;  // as in an empty slot, which no thread can hold
  // The mark of a thread without it.
  static constexpr std::uint32_t kHeld = 0xFFFFFFFF;

  static constexpr std::uint64_t kPermits = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kBudget = kPermits | 1;
  static constexpr std::uint64_t kSlices = std::uint64_t{2} << 62;
  static constexpr std::uint64_t kLog = std::uint64_t{3} << 62;

  SliceBlob* slices() const noexcept {
    return b == kSlices ? reinterpret_cast<SliceBlob*>(a) : nullptr;
  }
  core::LogBuffer* log() const noexcept {
    return b == kLog ? reinterpret_cast<core::LogBuffer*>(a) : nullptr;
  }
  core::PermitBuffer* permits() const noexcept {
    return b == kPermits ? reinterpret_cast<core::PermitBuffer*>(a) : nullptr;
  }
  core::BudgetBuffer* budget() const noexcept {
    return b == kBudget ? reinterpret_cast<core::BudgetBuffer*>(a) : nullptr;
  }
  void set(SliceBlob* blob) noexcept {
    a = reinterpret_cast<std::uint64_t>(blob);
    b = kSlices;
  }
  void set(core::LogBuffer* blob) noexcept {
    a = reinterpret_cast<std::uint64_t>(blob);
    b = kLog;
  }

  void set(core::PermitBuffer* blob) noexcept {
    a = reinterpret_cast<std::uint64_t>(blob);
    b = kPermits;
  }

  void set(core::BudgetBuffer* blob) noexcept {
    a = reinterpret_cast<std::uint64_t>(blob);
    b = kBudget;
  }

  core::State state() const noexcept {
    constexpr std::uint64_t kLast = (std::uint64_t{1} << 52) - 1;
    constexpr std::uint64_t kAux = (std::uint64_t{1} << 45) - 1;
    const std::uint64_t tag = a >> 52 | b >> 45 << 12;
    return {static_cast<core::Ticks>(a & kLast), b & kAux, units, static_cast<std::uint32_t>(tag)};
  }
  void set_state(const core::State& s) noexcept {
    a = static_cast<std::uint64_t>(s.last) | std::uint64_t{s.tag} << 52;
    b = s.aux | std::uint64_t{s.tag} >> 12 << 45;
    units = s.units;
  }

  // Sets everything except for the expiry.
  void set_rest(const PackedState& other) noexcept {
    a = other.a;
    b = other.b;
    units = other.units;
  }

  static constexpr bool is_mark(std::uint32_t expiry) noexcept { return expiry + 1 <= 1; }

  // Replaces the expiry by a mark and returns it. If there is a mark already,
  // returns that and changes nothing.
  std::uint32_t try_mark(std::uint32_t mark) noexcept {
    const std::atomic_ref held(expiry);
    std::uint32_t before = held.load(std::memory_order_relaxed);
    if (is_alone()) {
      if (!is_mark(before)) held.store(mark, std::memory_order_relaxed);
      return before;
    }
    while (!is_mark(before) && !held.compare_exchange_weak(before, mark, std::memory_order_acquire,
                                                           std::memory_order_relaxed)) {
    }
    return before;
  }
  // For a thread without the lock of the shard. Waits for others; if it `gives_up`, not for long:
  // then it returns a mark.
  std::uint32_t hold(bool gives_up = false) noexcept {
    const std::uint32_t before = try_mark(kHeld);
    return before == kHeld ? wait_and_hold(gives_up) : before;
  }
  // For a thread with the lock of the shard. Waits for others. Returns kPinned if it was pinned.
  std::uint32_t pin() noexcept {
    Spin spin;
    while (true) {
      const std::uint32_t before = try_mark(kPinned);
      if (before != kHeld) return before;
      spin.wait();
    }
  }
  // Ends hold() or pin().
  void leave(std::uint32_t next) noexcept {
    std::atomic_ref(expiry).store(next, std::memory_order_release);
  }

  // What leave() needs, and the reverse: the multiple, but never 0. A counter
  // that exists is never untouched at the multiple 0, the first instant of all.
  static constexpr std::uint32_t expiry_of(core::Forgotten forgotten) noexcept {
    return forgotten.multiple() + (forgotten.multiple() == 0);
  }
  static constexpr core::Forgotten forgotten_of(std::uint32_t expiry) noexcept {
    return core::Forgotten(is_mark(expiry) ? core::Forgotten::kNever : expiry);
  }
  void set_forgotten(core::Forgotten forgotten) noexcept { leave(expiry_of(forgotten)); }
  bool is_forgotten(core::Ticks now) const noexcept { return forgotten().is_past(now); }
  core::Forgotten forgotten() const noexcept {
    return forgotten_of(__atomic_load_n(&expiry, __ATOMIC_RELAXED));
  }

 private:
  [[gnu::noinline]] std::uint32_t wait_and_hold(bool gives_up) noexcept {
    Spin spin;
    while (true) {
      const bool may_wait = spin.wait();
      const std::uint32_t before = try_mark(kHeld);
      if (before != kHeld || (gives_up && !may_wait)) return before;
    }
  }
};
static_assert(sizeof(PackedState) == 24);

// Zeroed memory for a table, aligned to a cache line. From 2 MiB on it is in pages of 2 MiB if the
// system provides them. With small pages, random look-ups spend most of their time in page tables.
//
// Owns the memory. Not thread-safe.
class Pages {
 public:
  Pages() = default;
  // Throws std::bad_alloc.
  explicit Pages(std::size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  std::byte* data() const noexcept { return data_; }

  // Returns the memory from byte `first` to byte `last`, both multiples of kHuge, to the system. It
  // is zeroed memory again when it is used next. Memory of less than kHuge stays as it is.
  void release(std::size_t first, std::size_t last) noexcept;

  // Returns all of it to the system, which makes it zeroed memory again, if that is possible:
  // memory that is not small. Otherwise returns false.
  bool release() noexcept;

  static constexpr std::size_t kHuge = std::size_t{2} << 20;

 private:
  std::byte* data_ = nullptr;
  std::size_t mapped_ = 0;  // bytes from mmap; 0: from operator new
  std::size_t whole_ = 0;   // bytes from operator new, if they are whole pages
};

}  // namespace sluice::memory

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__SANITIZE_THREAD__)
#define SLUICE_TABLE_IS_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLUICE_TABLE_IS_CHECKED 1
#endif
#endif

namespace sluice::memory {

// The key changes only while the state is pinned.
struct Slot {
  Fingerprint key;
  PackedState state;
};
static_assert(sizeof(Slot) == 40);

// One byte for each of fifteen slots: a byte of its key, or 0 if it is empty.
struct alignas(16) Tags {
  static constexpr std::size_t kSlots = 15;

  std::uint8_t of[kSlots] = {};
  // The number of counters in later groups that are not in this one because it was full. 255 means
  // 255 or more, until the next rebuild.
  std::uint8_t passed_by = 0;

  static constexpr std::uint8_t kMany = 255;
  static constexpr std::uint32_t kAllSlots = (1u << kSlots) - 1;

  // Returns a bit for every slot with that tag.
  std::uint32_t matching(std::uint8_t tag) const noexcept {
#if defined(__SSE2__) && !defined(SLUICE_TABLE_IS_CHECKED)
    // Bytes that other threads change: not one atomic read, and it need not be one.
    const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(this));
    const __m128i equal = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(tag)));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(equal)) & kAllSlots;
#else
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kSlots; ++i) bits |= std::uint32_t{at(i) == tag} << i;
    return bits;
#endif
  }

  std::uint8_t at(std::size_t slot) const noexcept {
    return __atomic_load_n(&of[slot], __ATOMIC_RELAXED);
  }
  void set(std::size_t slot, std::uint8_t tag) noexcept {
    std::atomic_ref(of[slot]).store(tag, std::memory_order_relaxed);
  }
  std::uint8_t passed() const noexcept { return __atomic_load_n(&passed_by, __ATOMIC_RELAXED); }
  void set_passed(int number) noexcept {
    std::atomic_ref(passed_by).store(static_cast<std::uint8_t>(number), std::memory_order_relaxed);
  }
  // Adds 1 or -1.
  void pass(int more) noexcept {
    if (passed_by != kMany) set_passed(passed_by + more);
  }
};
static_assert(sizeof(Tags) == 16);

// What Table::take() knows of a table.
struct TableView {
  Tags* tags = nullptr;
  Slot* slots = nullptr;
  std::size_t count = 0;  // of groups
};

// A view that one thread at a time writes and any thread reads (a sequence lock). Reading follows
// no pointer, which would take longer than all of its loads together.
class SharedView {
 public:
  void write(const TableView& next) noexcept {
    const std::size_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    tags_.store(next.tags, std::memory_order_release);
    slots_.store(next.slots, std::memory_order_release);
    count_.store(next.count, std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }
  // Returns false, with nothing of use in `view`, while another thread writes.
  bool read(TableView& view) const noexcept {
    const std::size_t version = version_.load(std::memory_order_acquire);
    view.tags = tags_.load(std::memory_order_acquire);
    view.slots = slots_.load(std::memory_order_acquire);
    view.count = count_.load(std::memory_order_acquire);
    return version % 2 == 0 && version_.load(std::memory_order_relaxed) == version;
  }
  bool is_empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  std::atomic<std::size_t> version_{0};
  std::atomic<Tags*> tags_{nullptr};
  std::atomic<Slot*> slots_{nullptr};
  std::atomic<std::size_t> count_{0};
};

// A hash table of counters with open addressing. It has any number of groups of fifteen slots, is
// filled to seven eighths, and grows by a quarter. Each key has a favourite slot in its group. Most
// keys are there, so this slot is prefetched while the tags are read. Fingerprints are random:
// their bits choose group, slot and tag. Two bytes for each slot, the owner, are stored separately,
// because look-ups do not need them.
//
// Thread-safety: take() from any thread; for all else hold the lock of the shard. Owns the slots,
// not the blobs they point to. Pointers to slots last until the next rebuild(). Cost: a look-up
// fetches two cache lines, for most keys at the same time; 49 bytes a counter when full.
class Table {
 public:
  std::size_t size() const noexcept { return size_; }
  std::size_t group_count() const noexcept { return count_; }
  bool is_full() const noexcept { return size_ >= fill_limit(count_); }
  // Returns the number of counters with which this many groups are full, and the reverse.
  static std::size_t fill_limit(std::size_t groups) noexcept {
    return groups * Tags::kSlots * 7 / 8;
  }
  static std::size_t groups_for(std::size_t counters) noexcept {
    return core::ceil_div(counters * 8, Tags::kSlots * 7);
  }

  Slot* find(const Fingerprint& key) noexcept {
    return search(view(), key, [&](const Slot& slot) { return slot.key == key; });
  }

  // Finds a counter and holds it (PackedState::hold()). May return null although the counter is
  // there, while another thread changes the table, or if this one gives up. The memory of the table
  // must last; the table may be moved or be cleared and used again.
  [[gnu::always_inline]] static Slot* take(const TableView& view, const Fingerprint& key,
                                           bool gives_up, std::uint32_t& expiry) noexcept {
    if (view.count == 0) return nullptr;
    const std::size_t group = home_of(key, view.count);
    Slot* const slots = &view.slots[group * Tags::kSlots];
    // The slot is fetched while the tags are read. The key is not always there.
    prefetch_to_write(&slots[favourite_of(key)].state.expiry);
    const std::uint32_t bits = view.tags[group].matching(tag_of(key));
    if (bits == 0) return take_another(view, key, gives_up, expiry);
    Slot& first = slots[__builtin_ctz(bits)];
    if (hold(first, key, gives_up, expiry)) [[likely]]
      return &first;
    return take_another(view, key, gives_up, expiry);
  }
  TableView view() const noexcept { return {tags_, slots_, count_}; }

  // A number that the user of the table gives to a slot; 0 at first.
  std::uint16_t& owner_of(const Slot& slot) noexcept { return owners_[&slot - slots_]; }

  // Adds an absent key with an empty state. The table must not be full.
  Slot& insert(const Fingerprint& key, std::uint32_t expiry = 1) noexcept {
    std::size_t group = home_of(key, count_);
    std::size_t at = favourite_of(key);
    while (tags_[group].of[at] != 0) {
      if (const std::uint32_t empty = tags_[group].matching(0); empty != 0) {
        at = static_cast<std::size_t>(__builtin_ctz(empty));
        break;
      }
      tags_[group].pass(1);
      group = next(group);
    }
    Slot& slot = slots_[group * Tags::kSlots + at];
    slot.key.write(key);
    slot.state.set_rest({});
    tags_[group].set(at, tag_of(key));
    slot.state.leave(expiry);
    ++size_;
    return slot;
  }

  // The counter must be pinned, or no other thread use the table.
  void erase(Slot& slot) noexcept {
    const auto index = static_cast<std::size_t>(&slot - slots_);
    const std::size_t group = index / Tags::kSlots;
    for (std::size_t i = home_of(slot.key, count_); i != group; i = next(i)) tags_[i].pass(-1);
    tags_[group].set(index % Tags::kSlots, 0);
    owners_[index] = 0;
    slot.key.write({});
    slot.state.set_rest({});
    slot.state.leave(0);
    --size_;
  }

  // Moves a counter to another table if keep(slot, Forgotten) is true, or else drops it.
  template <typename Keep>
  void move(Slot& slot, Table& to, Keep keep) noexcept {
    const std::uint32_t expiry = slot.state.pin();
    if (keep(slot, PackedState::forgotten_of(expiry))) {
      Slot& moved = to.insert(slot.key, PackedState::kPinned);
      moved.state.set_rest(slot.state);
      to.owner_of(moved) = owner_of(slot);
      moved.state.leave(expiry);
    }
    erase(slot);
  }

  // Moves every counter for which keep(slot, Forgotten) is true into a fresh table, which must have
  // room for them and takes the place of this one. Returns the old table, which is empty.
  template <typename Keep>
  Table rebuild(Table fresh, Keep keep) noexcept {
    for_each([&](Slot& slot) { move(slot, fresh, keep); });
    return std::exchange(*this, std::move(fresh));
  }

  template <typename Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < count_; ++i) for_each_in(i, visit);
  }
  // The visit may erase its slot.
  template <typename Visit>
  void for_each_in(std::size_t group, Visit visit) {
    for (std::size_t at = 0; at < Tags::kSlots; ++at) {
      if (tags_[group].of[at] != 0) visit(slots_[group * Tags::kSlots + at]);
    }
  }

  // Visits each counter whose home is that group, wherever it is. The visit may erase its slot.
  template <typename Visit>
  void for_each_of_home(std::size_t home, Visit visit) {
    std::size_t group = home;
    for (std::size_t looked = 0; looked < count_; ++looked) {
      const bool is_last = tags_[group].passed_by == 0;  // as it was before any is erased
      for_each_in(group, [&](Slot& slot) {
        if (home_of(slot.key) == home) visit(slot);
      });
      if (is_last) return;
      group = next(group);
    }
  }

  // Visits each counter whose key's `high` is from `first` to `last`.
  template <typename Visit>
  void for_each_between(std::uint64_t first, std::uint64_t last, Visit visit) {
    if (count_ == 0) return;
    const std::size_t end = home_of({.high = last}) + 1;
    for (std::size_t home = home_of({.high = first}); home < end; ++home) {
      for_each_of_home(home, [&](Slot& slot) {
        if (slot.key.high >= first && slot.key.high <= last) visit(slot);
      });
    }
  }

  // Visits the slots of that owner, which is not 0.
  template <typename Visit>
  void for_each_in(std::size_t group, std::uint16_t owner, Visit visit) {
    for (std::size_t i = group * Tags::kSlots; i < (group + 1) * Tags::kSlots; ++i) {
      if (owners_[i] == owner) visit(slots_[i]);
    }
  }

  // The first group that is looked at for a key.
  std::size_t home_of(const Fingerprint& key) const noexcept { return home_of(key, count_); }
  static std::size_t home_of(const Fingerprint& key, std::size_t groups) noexcept {
    return static_cast<std::size_t>((core::Wide{key.high} * groups) >> 64);
  }
  bool contains(const Slot& slot) const noexcept {
    return &slot >= slots_ && &slot < slots_ + count_ * Tags::kSlots;
  }

  // Returns the memory of the slots of the groups before this one to the system, in whole pages and
  // only if they are all empty. Each call needs at least the groups of the one before.
  void release_slots_before(std::size_t group) noexcept {
    const std::size_t begin =
        static_cast<std::size_t>(reinterpret_cast<std::byte*>(slots_) - memory_.data());
    const std::size_t first =
        std::max(released_, core::ceil_div(begin, Pages::kHuge) * Pages::kHuge);
    const std::size_t last = (begin + group * kGroupBytes) / Pages::kHuge * Pages::kHuge;
    if (last <= first) return;
    released_ = last;
    for (std::size_t i = (first - begin) / kGroupBytes; i < group; ++i) {
      if (tags_[i].matching(0) != Tags::kAllSlots) return;
    }
    memory_.release(first, last);
  }

  Table() = default;
  // Makes empty slots: zeroed memory is empty tags and slots.
  explicit Table(std::size_t groups)
      : capacity_(groups),
        memory_(groups * (sizeof(Tags) + Tags::kSlots * (sizeof(Slot) + sizeof(std::uint16_t)))),
        tags_(reinterpret_cast<Tags*>(memory_.data())),
        slots_(reinterpret_cast<Slot*>(tags_ + groups)),
        owners_(reinterpret_cast<std::uint16_t*>(slots_ + groups * Tags::kSlots)),
        count_(groups) {}

  // The most groups that its memory has room for.
  std::size_t capacity() const noexcept { return capacity_; }
  // Prepares an empty table for use_again(), and returns its memory to the system if it is large.
  void clear() noexcept {
    if (memory_.release()) return;
    for (std::size_t i = 0; i < count_; ++i) tags_[i].set_passed(0);
  }
  // Gives a cleared table another number of groups, at most its capacity.
  void use_again(std::size_t groups) noexcept {
    count_ = groups;
    released_ = 0;
  }

  // Writes to the first tags, so that the system provides their page now.
  void touch() noexcept { tags_->set_passed(0); }

 private:
  // Returns the first slot with the key's tag for which is_key(slot) is true.
  template <typename IsKey>
  [[gnu::always_inline]] static Slot* search(const TableView view, const Fingerprint& key,
                                             IsKey is_key) noexcept {
    if (view.count == 0) return nullptr;
    std::size_t group = home_of(key, view.count);
    // The slot is fetched while the tags are read. The key is not always there.
    prefetch_to_write(&view.slots[group * Tags::kSlots + favourite_of(key)].state.expiry);
    const std::uint8_t tag = tag_of(key);
    for (std::size_t looked = 0; looked < view.count; ++looked) {
      const Tags& tags = view.tags[group];
      for (std::uint32_t bits = tags.matching(tag); bits != 0; bits &= bits - 1) {
        Slot& slot =
            view.slots[group * Tags::kSlots + static_cast<std::size_t>(__builtin_ctz(bits))];
        if (is_key(slot)) [[likely]]
          return &slot;
      }
      if (tags.passed() == 0) return nullptr;
      group = group + 1 == view.count ? 0 : group + 1;
    }
    return nullptr;
  }

  // Holds the slot if it has that key.
  [[gnu::always_inline]] static bool hold(Slot& slot, const Fingerprint& key, bool gives_up,
                                          std::uint32_t& expiry) noexcept {
    // Another counter with this tag may be one that this thread holds: it must not wait for that.
    if (gives_up && slot.key.peek_low() != key.low) return false;
    const std::uint32_t held = slot.state.hold(gives_up);
    if (PackedState::is_mark(held)) return false;
    if (slot.key == key) [[likely]] {
      expiry = held;
      return true;
    }
    slot.state.leave(held);
    return false;
  }
  // take() of a key that is not in the first slot with its tag.
  [[gnu::noinline]] static Slot* take_another(TableView view, const Fingerprint& key, bool gives_up,
                                              std::uint32_t& expiry) noexcept {
    return search(view, key, [&](Slot& slot) { return hold(slot, key, gives_up, expiry); });
  }

  static void prefetch_to_write(const void* at) noexcept {
#if defined(__x86_64__)
    // The compiler would make a prefetch to read of it, and the line would travel twice.
    __asm__("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
    __builtin_prefetch(at, 1);
#endif
  }

  static constexpr std::size_t kGroupBytes = Tags::kSlots * sizeof(Slot);

  static std::uint8_t tag_of(const Fingerprint& key) noexcept {
    const auto tag = static_cast<std::uint8_t>(key.low);
    return tag != 0 ? tag : 1;
  }
  static std::size_t favourite_of(const Fingerprint& key) noexcept {
    return static_cast<std::size_t>((key.low >> 32) * Tags::kSlots >> 32);
  }
  std::size_t next(std::size_t group) const noexcept { return group + 1 == count_ ? 0 : group + 1; }

  std::size_t capacity_ = 0;
  Pages memory_;
  Tags* tags_ = nullptr;
  Slot* slots_ = nullptr;
  std::uint16_t* owners_ = nullptr;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
  std::size_t released_ = 0;  // the offset in memory_ up to which slots were released
};

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
