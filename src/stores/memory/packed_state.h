#pragma once

#include <atomic>
#include <cstdint>

#include "core/concurrency.h"
#include "core/log.h"
#include "core/state.h"
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
//   (permits) units (32), expiry (32)
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

}  // namespace sluice::memory
