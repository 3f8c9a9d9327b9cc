#include "stores/memory/cells.h"

#include <algorithm>
#include <new>

namespace sluice::memory {
namespace {

constexpr std::size_t kFirstChunk = 4096;
constexpr std::size_t kLargestChunk = std::size_t{4} << 20;

}  // namespace

void* Cells::take() {
  if (free_ != nullptr) {
    Free* const cell = free_;
    free_ = cell->next;
    return cell;
  }
  if (fresh_bytes_ == 0) {
    // Half as much as there is, so that at most a third of the memory is unused.
    const std::size_t wanted = std::clamp(total_bytes_ / 2, kFirstChunk, kLargestChunk);
    const std::size_t bytes = wanted / kBytes * kBytes;
    chunks_.emplace_back(bytes);
    fresh_ = chunks_.back().data();
    fresh_bytes_ = bytes;
    total_bytes_ += bytes;
  }
  fresh_bytes_ -= kBytes;
  return fresh_ + fresh_bytes_;
}

void Cells::give(void* cell) noexcept { free_ = new (cell) Free{free_}; }

}  // namespace sluice::memory
