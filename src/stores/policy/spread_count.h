#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::policy {

// A count that many threads increment, each mostly in a slot of its own, so that they do not share
// a cache line.
class SpreadCount {
 public:
  void add_one() noexcept { slots_[own_slot()].count.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t get() const noexcept {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) sum += slot.count.load(std::memory_order_relaxed);
    return sum;
  }

  // Returns the count and begins again at 0.
  std::uint64_t take() noexcept {
    std::uint64_t sum = 0;
    for (Slot& slot : slots_) sum += slot.count.exchange(0, std::memory_order_relaxed);
    return sum;
  }

 private:
  static constexpr std::size_t kSlots = 16;
  static std::size_t own_slot() noexcept {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
    return std::uint64_t{pthread_self()} * kGolden >> (64 - std::bit_width(kSlots - 1));
  }

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> count{0};
  };
  std::array<Slot, kSlots> slots_;
};

}  // namespace sluice::policy
