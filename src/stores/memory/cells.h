#pragma once

#include <cstddef>
#include <vector>

#include "stores/memory/pages.h"

namespace sluice::memory {

// Pieces of one cache line each, for the many small states of a shard. malloc would put its own
// data next to a state, which takes a second cache line. The pages of the pieces are few and large.
//
// Not thread-safe. Owns the memory, and keeps it for further pieces until it is destroyed.
class Cells {
 public:
  static constexpr std::size_t kBytes = 64;

  // Returns a piece with unspecified bytes. Throws std::bad_alloc.
  void* take();
  void give(void* cell) noexcept;

 private:
  struct Free {
    Free* next;
  };

  Free* free_ = nullptr;
  std::byte* fresh_ = nullptr;  // the part of the last chunk that is not in use yet
  std::size_t fresh_bytes_ = 0;
  std::size_t total_bytes_ = 0;
  std::vector<Pages> chunks_;
};

}  // namespace sluice::memory
