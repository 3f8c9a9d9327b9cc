#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

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

 private:
  static constexpr std::size_t kSlots = 16;
  static std::size_t own_slot() noexcept {
    const std::uint64_t id = std::hash<std::thread::id>()(std::this_thread::get_id());
    return static_cast<std::size_t>((id * 0x9E3779B97F4A7C15u) >> 60);
  }
  static_assert(kSlots == 16);

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> count{0};
  };
  std::array<Slot, kSlots> slots_;
};

}  // namespace sluice::policy
