#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "stores/memory/counter.h"

namespace sluice::memory {

// Applies an action to all counters of one request or to none, under the locks of their shards.
// Returns kOk; or kStoreError if the store has no memory, or kStoreFull if a counter must not be
// created (Counter::is_refused()): then nothing was taken or given back.
Reason carry_out(Action action, std::span<Counter> counters) noexcept;

// Locks the shards of one request, each once and in their order, so that two requests never wait
// for each other. `shard_of` returns the shard of an element, or null for none.
template <std::size_t N>
class Locks {
 public:
  template <typename Elements, typename ShardOf>
  Locks(const Elements& elements, ShardOf shard_of) noexcept {
    for (const auto& element : elements) add(shard_of(element));
    for (std::size_t i = 0; i < count_; ++i) shards_[i]->mutex.lock();
  }
  ~Locks() {
    for (std::size_t i = count_; i > 0; --i) shards_[i - 1]->mutex.unlock();
  }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  // Inserts a shard in order, unless it is there already. Most requests have two or three.
  void add(Shard* shard) noexcept {
    if (shard == nullptr) return;
    if constexpr (N == 1) {
      shards_[count_++] = shard;
      return;
    }
    std::size_t at = count_;
    while (at > 0 && std::less<>{}(shard, shards_[at - 1])) --at;
    if (at > 0 && shards_[at - 1] == shard) return;
    for (std::size_t i = count_; i > at; --i) shards_[i] = shards_[i - 1];
    shards_[at] = shard;
    ++count_;
  }

  std::array<Shard*, N> shards_;
  std::size_t count_ = 0;
};

}  // namespace sluice::memory
