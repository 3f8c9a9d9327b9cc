#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "sluice/clock.h"

namespace sluice::server {

// Remembers which keys were reported as near their limits, each until its window ends. It holds
// kMost keys in 1 MiB, which the first key allocates. If there is no room for a further key, it
// forgets one whose window ends soon; that key may then be reported once more.
//
// Thread-safety: any member from any thread. Cost: some ns, with a lock on a part of the table.
class NearKeys {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 16;

  // Adds the hash of a key for the time from `now` to the end of its window. Returns whether it was
  // not there. Allocates once; without memory it throws std::bad_alloc.
  bool add(std::uint64_t hash, Instant now, Duration window);

 private:
  static constexpr std::size_t kSetSize = 8;
  static constexpr std::size_t kSets = kMost / kSetSize;
  static constexpr std::size_t kLocks = 64;
  struct Entry {
    std::uint64_t hash = 0;
    Instant until = Instant::min();
  };

  Entry* entries();

  std::once_flag allocated_;
  std::unique_ptr<Entry[]> entries_;
  std::array<std::mutex, kLocks> locks_;  // of the set with the same index modulo kLocks
};

}  // namespace sluice::server
