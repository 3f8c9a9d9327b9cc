#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "sluice/clock.h"

namespace sluice::detail {

// Sleepers by the instant at which they wake, the earliest first. A binary heap in which each
// sleeper knows its place, so that it can be removed.
//
// Thread-safety: one thread at a time. Ownership: borrows the sleepers. Cost: 16 bytes a sleeper;
// O(log n), and O(1) for the first.
class WakeHeap {
 public:
  // Base of what sleeps.
  class Sleeper {
   public:
    // Whether it is in a heap.
    bool is_asleep() const noexcept { return place_ != 0; }

   private:
    friend class WakeHeap;
    std::uint32_t place_ = 0;  // from 1; 0: in no heap
  };

  // Makes room, so that add() cannot fail while there are fewer than `count` sleepers.
  bool reserve(std::size_t count) noexcept try {
    if (heap_.capacity() < count) heap_.reserve(count + count / 2);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  void add(Sleeper& sleeper, Instant at) noexcept {
    heap_.push_back({at, &sleeper});
    rise(heap_.size() - 1);
  }
  // Does nothing if the sleeper is in no heap.
  void remove(Sleeper& sleeper) noexcept {
    if (!sleeper.is_asleep()) return;
    const std::size_t place = std::exchange(sleeper.place_, 0) - 1;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    put(place, last);
    rise(place);
    sink(last.sleeper->place_ - 1);
  }

  bool empty() const noexcept { return heap_.empty(); }
  // The first sleeper, and when it wakes. There must be one.
  Sleeper& first() const noexcept { return *heap_.front().sleeper; }
  Instant at() const noexcept { return heap_.front().at; }

 private:
  struct Entry {
    Instant at;
    Sleeper* sleeper;
  };
  void put(std::size_t place, const Entry& entry) noexcept {
    heap_[place] = entry;
    entry.sleeper->place_ = static_cast<std::uint32_t>(place + 1);
  }
  void rise(std::size_t place) noexcept {
    const Entry entry = heap_[place];
    for (; place > 0 && entry.at < heap_[(place - 1) / 2].at; place = (place - 1) / 2) {
      put(place, heap_[(place - 1) / 2]);
    }
    put(place, entry);
  }
  void sink(std::size_t place) noexcept {
    const Entry entry = heap_[place];
    for (;;) {
      std::size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) ++child;
      if (entry.at <= heap_[child].at) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }

  std::vector<Entry> heap_;
};

}  // namespace sluice::detail
