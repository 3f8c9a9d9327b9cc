#pragma once

#include <cstdint>

#include "core/log.h"
#include "core/permits.h"
#include "core/state.h"

namespace sluice::memory {

struct SliceBlob;

// A core::State in 20 bytes, or a pointer to a window's memory, and when the counter is forgotten
// (core::Forgotten).
//
//   word a: last (52 bits) | low 12 bits of tag      or the pointer
//   word b: aux (45) | high 17 bits of tag | 0 | 0   or 2 << 62 (slices), 3 << 62 (log), 1 << 62
//   (permits) units (32), expiry (32)
struct PackedState {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint32_t units = 0;
  std::uint32_t expiry = 0;

  // The expiry of a counter that a request is about to write. It is neither swept nor evicted.
  static constexpr std::uint32_t kPinned = 0xFFFFFFFF;

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

  static constexpr std::uint32_t kNever = core::Forgotten::kNever;  // pinned is later
  static_assert(kPinned > kNever);

  void set_forgotten(core::Forgotten forgotten) noexcept { expiry = forgotten.multiple(); }
  bool is_forgotten(core::Ticks now) const noexcept { return forgotten().is_past(now); }
  core::Forgotten forgotten() const noexcept { return core::Forgotten(expiry); }
};
static_assert(sizeof(PackedState) == 24);

}  // namespace sluice::memory
