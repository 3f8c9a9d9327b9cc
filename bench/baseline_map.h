#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "sluice/memory_store.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::bench {

// Returns the number of shards of a memory store with default options on this machine.
inline std::size_t default_shards() { return MemoryStore().stats().shards; }

// The baseline without a limiter: a counter per key in a sharded hash map, with one mutex per
// shard. It hashes a key once, for the shard and the map, and looks it up without an allocation.
//
// It forgets nothing, has no bound and no clock, and its hash has no secret.
class BaselineMap {
 public:
  explicit BaselineMap(std::size_t shards = default_shards())
      : shards_(std::make_unique<Shard[]>(shards)), mask_(shards - 1) {}

  std::uint64_t increment(std::string_view key) {
    const Hashed hashed{key, XXH3_64bits(key.data(), key.size())};
    // The map uses the highest and the lowest bits.
    Shard& shard = shards_[(hashed.hash >> 24) & mask_];
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.counts.find(hashed);
    if (found != shard.counts.end()) [[likely]] {
      return ++found->second;
    }
    return ++shard.counts.try_emplace(std::string(key), 0).first->second;
  }

 private:
  struct Hashed {
    std::string_view key;
    std::uint64_t hash;
  };
  struct Hash {
    using is_transparent = void;
    using is_avalanching = void;
    std::size_t operator()(const Hashed& key) const noexcept { return key.hash; }
    std::size_t operator()(const std::string& key) const noexcept {
      return XXH3_64bits(key.data(), key.size());
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const Hashed& a, const std::string& b) const noexcept { return a.key == b; }
    bool operator()(const std::string& a, const Hashed& b) const noexcept { return a == b.key; }
    bool operator()(const std::string& a, const std::string& b) const noexcept { return a == b; }
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    boost::unordered_flat_map<std::string, std::uint64_t, Hash, Equal> counts;
  };

  std::unique_ptr<Shard[]> shards_;
  std::size_t mask_;
};

}  // namespace sluice::bench
