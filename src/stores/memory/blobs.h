#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/log.h"
#include "core/sliding_window_counter.h"

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

}  // namespace sluice::memory
