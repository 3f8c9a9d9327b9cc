#pragma once

#include <cstddef>
#include <vector>

#include "stores/memory/pages.h"

namespace sluice::memory {

// Pieces of one cache line each, for the many small states of a shard: a line apart from malloc's
// bookkeeping is one line to fetch, and their pages are few and large.
//
// Not thread-safe. Owns the memory, which it keeps for further pieces until its end.
class Cells {
 public:
  static constexpr std::size_t kBytes = 64;

  // A piece, its bytes unspecified. Throws std::bad_alloc.
  void* take();
  void give(void* cell) noexcept;

 private:
  struct Free {
    Free* next;
  };

  Free* free_ = nullptr;
  std::byte* fresh_ = nullptr;  // the part of the last chunk that was never taken
  std::size_t fresh_bytes_ = 0;
  std::size_t total_bytes_ = 0;
  std::vector<Pages> chunks_;
};

}  // namespace sluice::memory
