#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "stores/memory/fingerprint.h"
#include "stores/memory/packed_state.h"

namespace sluice::memory {

struct Slot {
  Fingerprint key;
  PackedState state;
};
static_assert(sizeof(Slot) == 40);

// Twelve slots and their tags in 512 bytes, so that a look-up touches two cache lines of one page.
struct alignas(512) Block {
  static constexpr std::size_t kSlots = 12;

  std::uint8_t tags[16] = {};  // 0: empty; the last four stay empty
  // Counters that live in a later block because this one, on their way, was full.
  std::uint32_t passed_by = 0;
  std::uint32_t unused[3] = {};
  Slot slots[kSlots];

  // A bit for every slot with that tag.
  std::uint32_t matching(std::uint8_t tag) const noexcept {
#if defined(__SSE2__)
    const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(tags));
    const __m128i equal = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(tag)));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(equal)) & ((1u << kSlots) - 1);
#else
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kSlots; ++i) bits |= std::uint32_t{tags[i] == tag} << i;
    return bits;
#endif
  }
};
static_assert(sizeof(Block) == 512);

// An open-addressing hash table of counters that wastes little: any number of blocks, filled to
// seven eighths, grown by a quarter. Fingerprints are random, so their high bits choose the block.
//
// Not thread-safe. Owns the slots, not the blobs they point to. Pointers to slots last until the next
// rebuild(). Cost: two cache lines a look-up, 48.8 bytes a counter when full.
class Table {
 public:
  std::size_t size() const noexcept { return size_; }
  std::size_t block_count() const noexcept { return count_; }
  Block& block(std::size_t i) noexcept { return blocks_[i]; }
  bool is_full() const noexcept { return size_ >= fill_limit(count_); }
  // Counters that so many blocks take before the table counts as full.
  static std::size_t fill_limit(std::size_t blocks) noexcept {
    return blocks * Block::kSlots * 7 / 8;
  }
  static std::size_t blocks_for(std::size_t counters) noexcept {
    return core::ceil_div(counters * 8, Block::kSlots * 7);
  }

  Slot* find(const Fingerprint& key) noexcept {
    if (count_ == 0) return nullptr;
    const std::uint8_t tag = tag_of(key);
    std::size_t i = home_of(key, count_);
    for (std::size_t looked = 0; looked < count_; ++looked) {
      Block& b = blocks_[i];
      for (std::uint32_t bits = b.matching(tag); bits != 0; bits &= bits - 1) {
        Slot& slot = b.slots[__builtin_ctz(bits)];
        if (slot.key == key) return &slot;
      }
      if (b.passed_by == 0) return nullptr;
      i = next(i);
    }
    return nullptr;
  }

  // Adds an absent key with an empty state. The table must not be full.
  Slot& insert(const Fingerprint& key) noexcept {
    std::size_t i = home_of(key, count_);
    while (true) {
      Block& b = blocks_[i];
      if (const std::uint32_t empty = b.matching(0); empty != 0) {
        const int at = __builtin_ctz(empty);
        b.tags[at] = tag_of(key);
        b.slots[at] = Slot{key, {}};
        ++size_;
        return b.slots[at];
      }
      ++b.passed_by;
      i = next(i);
    }
  }

  void erase(Slot& slot) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(&slot);
    auto& b = *reinterpret_cast<Block*>(at & ~(sizeof(Block) - 1));
    b.tags[&slot - b.slots] = 0;
    for (std::size_t i = home_of(slot.key, count_); &blocks_[i] != &b; i = next(i)) {
      --blocks_[i].passed_by;
    }
    --size_;
  }

  // Moves every counter for which keep(Slot&) holds into a table of `blocks` blocks, which must be
  // enough for them. Throws std::bad_alloc, and has changed nothing then.
  template <typename Keep>
  void rebuild(std::size_t blocks, Keep keep) {
    Table bigger;
    bigger.blocks_ = std::make_unique<Block[]>(blocks);
    bigger.count_ = blocks;
    for_each([&](Slot& slot) {
      if (keep(slot)) bigger.insert(slot.key).state = slot.state;
    });
    *this = std::move(bigger);
  }

  template <typename Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < count_; ++i) for_each_in(i, visit);
  }
  // The visit may erase the slot that it is shown.
  template <typename Visit>
  void for_each_in(std::size_t block_index, Visit visit) {
    Block& b = blocks_[block_index];
    for (std::size_t at = 0; at < Block::kSlots; ++at) {
      if (b.tags[at] != 0) visit(b.slots[at]);
    }
  }

 private:
  static std::uint8_t tag_of(const Fingerprint& key) noexcept {
    const auto tag = static_cast<std::uint8_t>(key.low);
    return tag != 0 ? tag : 1;
  }
  static std::size_t home_of(const Fingerprint& key, std::size_t blocks) noexcept {
    return static_cast<std::size_t>((core::Wide{key.high} * blocks) >> 64);
  }
  std::size_t next(std::size_t i) const noexcept { return i + 1 == count_ ? 0 : i + 1; }

  std::unique_ptr<Block[]> blocks_;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
};

}  // namespace sluice::memory
