#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/store.h"

namespace sluice::memory {

// What a shard has a bound for.
enum class Resource : std::uint8_t { kCounters, kBytes };

// Identifies the limit of a charge: by its id, or else by its numbers.
std::uint64_t limit_id_of(const Charge& charge) noexcept;

// How much of a shard each limit uses. A limit is what Charge::limit_id names, or else all counters
// of a keyspace with the same numbers. If there is no place for another limit, it shares the place
// of one that is there; shards of usual size have room for hundreds.
//
// Not thread-safe. Cost: constant; it allocates nothing after the constructor.
class LimitUsage {
 public:
  using Index = std::uint16_t;
  static constexpr Index kNone = 0;

  // Throws std::bad_alloc.
  explicit LimitUsage(std::size_t max_keys);

  // Counts a new counter of the charge's limit and returns the limit's index, which stays the same
  // until the limit has no counter.
  Index add_counter(const Charge& charge) noexcept;
  Index add_counter(std::uint64_t id, const Limit& limit) noexcept;
  void remove_counter(Index index) noexcept { --at(index).counters; }
  void add_bytes(Index index, std::size_t bytes) noexcept;
  void remove_bytes(Index index, std::size_t bytes) noexcept { at(index).bytes -= bytes; }

  // Returns the limit as the newest of its counters had it.
  std::uint64_t id(Index index) const noexcept { return at(index).id; }
  const Limit& limit(Index index) const noexcept { return at(index).limit; }
  std::uint64_t used(Index index, Resource resource) const noexcept {
    return resource == Resource::kCounters ? at(index).counters : at(index).bytes;
  }

  // Returns the limit that uses the most, as far as note_largest() has seen.
  Index largest(Resource resource) const noexcept { return largest_[number_of(resource)]; }
  // Replaces the largest limit by this one if this one uses more.
  void note_largest(Index index, Resource resource) noexcept;

 private:
  struct Place {
    std::uint64_t id = 0;
    std::uint64_t counters = 0;  // 0: the place is free
    std::uint64_t bytes = 0;
    Limit limit;
  };

  static std::size_t number_of(Resource resource) noexcept {
    return static_cast<std::size_t>(resource);
  }
  std::size_t place_for(std::uint64_t id) const noexcept;
  Place& at(Index index) noexcept { return places_[index]; }
  const Place& at(Index index) const noexcept { return places_[index]; }

  std::vector<Place> places_;  // after the first, which is nobody's, in sets of kWays
  Index largest_[2] = {kNone, kNone};
};

}  // namespace sluice::memory
