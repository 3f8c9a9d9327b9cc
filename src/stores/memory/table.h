#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "stores/memory/fingerprint.h"
#include "stores/memory/packed_state.h"
#include "stores/memory/pages.h"

namespace sluice::memory {

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
#if defined(__SSE2__)
    const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(this));
    const __m128i equal = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(tag)));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(equal)) & kAllSlots;
#else
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kSlots; ++i) bits |= std::uint32_t{of[i] == tag} << i;
    return bits;
#endif
  }
};
static_assert(sizeof(Tags) == 16);

// A hash table of counters with open addressing. It has any number of groups of fifteen slots, is
// filled to seven eighths, and grows by a quarter. Each key has a favourite slot in its group. Most
// keys are there, so this slot is prefetched while the tags are read. Fingerprints are random:
// their bits choose group, slot and tag. Two bytes for each slot, the owner, are stored separately,
// because look-ups do not need them.
//
// Not thread-safe. Owns the slots, not the blobs they point to. Pointers to slots last until the
// next rebuild(). Cost: a look-up fetches two cache lines, for most keys at the same time; 49 bytes
// a counter when full.
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
    if (count_ == 0) return nullptr;
    std::size_t group = home_of(key, count_);
    // The slot is fetched while the tags are read. The key is not always there.
    __builtin_prefetch(&slots_[group * Tags::kSlots + favourite_of(key)]);
    const std::uint8_t tag = tag_of(key);
    for (std::size_t looked = 0; looked < count_; ++looked) {
      const Tags& tags = tags_[group];
      for (std::uint32_t bits = tags.matching(tag); bits != 0; bits &= bits - 1) {
        Slot& slot = slots_[group * Tags::kSlots + static_cast<std::size_t>(__builtin_ctz(bits))];
        if (slot.key == key) [[likely]]
          return &slot;
      }
      if (tags.passed_by == 0) return nullptr;
      group = next(group);
    }
    return nullptr;
  }

  // A number that the user of the table gives to a slot; 0 at first.
  std::uint16_t& owner_of(const Slot& slot) noexcept { return owners_[&slot - slots_]; }

  // Adds an absent key with an empty state. The table must not be full.
  Slot& insert(const Fingerprint& key) noexcept {
    std::size_t group = home_of(key, count_);
    std::size_t at = favourite_of(key);
    while (tags_[group].of[at] != 0) {
      if (const std::uint32_t empty = tags_[group].matching(0); empty != 0) {
        at = static_cast<std::size_t>(__builtin_ctz(empty));
        break;
      }
      if (tags_[group].passed_by != Tags::kMany) ++tags_[group].passed_by;
      group = next(group);
    }
    tags_[group].of[at] = tag_of(key);
    Slot& slot = slots_[group * Tags::kSlots + at];
    slot = Slot{key, {}};
    ++size_;
    return slot;
  }

  void erase(Slot& slot) noexcept {
    const auto index = static_cast<std::size_t>(&slot - slots_);
    const std::size_t group = index / Tags::kSlots;
    for (std::size_t i = home_of(slot.key, count_); i != group; i = next(i)) {
      if (tags_[i].passed_by != Tags::kMany) --tags_[i].passed_by;
    }
    tags_[group].of[index % Tags::kSlots] = 0;
    owners_[index] = 0;
    slot = Slot{};
    --size_;
  }

  // Moves every counter for which keep(Slot&) is true into a table of `groups` groups, which must
  // have room for them. If it throws std::bad_alloc, nothing has changed.
  template <typename Keep>
  void rebuild(std::size_t groups, Keep keep) {
    Table fresh(groups);
    for_each([&](Slot& slot) {
      if (!keep(slot)) return;
      Slot& moved = fresh.insert(slot.key);
      moved.state = slot.state;
      fresh.owner_of(moved) = owner_of(slot);
    });
    std::swap(memory_, fresh.memory_);
    tags_ = fresh.tags_;
    slots_ = fresh.slots_;
    owners_ = fresh.owners_;
    count_ = fresh.count_;
    size_ = fresh.size_;
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

  // Visits the slots of that owner, which is not 0.
  template <typename Visit>
  void for_each_in(std::size_t group, std::uint16_t owner, Visit visit) {
    for (std::size_t i = group * Tags::kSlots; i < (group + 1) * Tags::kSlots; ++i) {
      if (owners_[i] == owner) visit(slots_[i]);
    }
  }

  // The first group that is looked at for a key.
  std::size_t home_of(const Fingerprint& key) const noexcept { return home_of(key, count_); }
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
      : memory_(groups * (sizeof(Tags) + Tags::kSlots * (sizeof(Slot) + sizeof(std::uint16_t)))),
        tags_(reinterpret_cast<Tags*>(memory_.data())),
        slots_(reinterpret_cast<Slot*>(tags_ + groups)),
        owners_(reinterpret_cast<std::uint16_t*>(slots_ + groups * Tags::kSlots)),
        count_(groups) {}

  // Writes to the first tags, so that the system provides their page now.
  void touch() noexcept { *reinterpret_cast<volatile std::uint8_t*>(&tags_->passed_by) = 0; }

 private:
  static constexpr std::size_t kGroupBytes = Tags::kSlots * sizeof(Slot);

  static std::uint8_t tag_of(const Fingerprint& key) noexcept {
    const auto tag = static_cast<std::uint8_t>(key.low);
    return tag != 0 ? tag : 1;
  }
  static std::size_t favourite_of(const Fingerprint& key) noexcept {
    return static_cast<std::size_t>((key.low >> 32) * Tags::kSlots >> 32);
  }
  static std::size_t home_of(const Fingerprint& key, std::size_t groups) noexcept {
    return static_cast<std::size_t>((core::Wide{key.high} * groups) >> 64);
  }
  std::size_t next(std::size_t group) const noexcept { return group + 1 == count_ ? 0 : group + 1; }

  Pages memory_;
  Tags* tags_ = nullptr;
  Slot* slots_ = nullptr;
  std::uint16_t* owners_ = nullptr;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
  std::size_t released_ = 0;  // the offset in memory_ up to which slots were released
};

}  // namespace sluice::memory
