#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "stores/memory/fingerprint.h"
#include "stores/memory/packed_state.h"
#include "stores/memory/pages.h"

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
  // Returns the number of counters with which so many groups are full, and the reverse.
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

}  // namespace sluice::memory
