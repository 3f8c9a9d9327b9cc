#include "stores/memory/limit_usage.h"

#include <algorithm>
#include <bit>
#include <chrono>

namespace sluice::memory {
namespace {

// The places that a limit can have.
constexpr std::size_t kWays = 8;
constexpr std::size_t kCountersPerPlace = 64;
constexpr std::size_t kMostPlaces = 4096;

std::size_t places_for(std::size_t max_keys) noexcept {
  return std::clamp(std::bit_ceil(max_keys / kCountersPerPlace + 1), 4 * kWays, kMostPlaces);
}

}  // namespace

std::uint64_t limit_id_of(const Charge& charge) noexcept {
  const Limit& limit = charge.limit;
  const auto kind = static_cast<std::uint64_t>(limit.algorithm()) << 1 |
                    std::uint64_t{charge.keyspace == Keyspace::kRules};
  const std::uint64_t id = detail::mix(kind, charge.limit_id);
  if (charge.limit_id != 0) return id;
  const auto period = static_cast<std::uint64_t>(limit.period().count());
  const std::uint64_t numbers =
      detail::mix(detail::mix(detail::mix(id, limit.limit()), period), limit.capacity());
  return limit.calendar() == nullptr ? numbers : detail::mix(numbers, limit.calendar()->number());
}

LimitUsage::LimitUsage(std::size_t max_keys)
    : places_(1 + places_for(max_keys), Place{.limit = token_bucket(1).per(std::chrono::days{1})}) {
}

// Returns the place of a limit, or a free one, or else one that it shares.
std::size_t LimitUsage::place_for(std::uint64_t id) const noexcept {
  const std::size_t sets = (places_.size() - 1) / kWays;
  const std::size_t set = 1 + id % sets * kWays;
  std::size_t place = set + (id >> 32) % kWays;
  for (std::size_t i = set; i < set + kWays; ++i) {
    if (places_[i].counters == 0) {
      place = i;
    } else if (places_[i].id == id) {
      return i;
    }
  }
  return place;
}

LimitUsage::Index LimitUsage::add_counter(const Charge& charge) noexcept {
  return add_counter(limit_id_of(charge), charge.limit);
}

LimitUsage::Index LimitUsage::add_counter(std::uint64_t id, const Limit& limit) noexcept {
  const auto index = static_cast<Index>(place_for(id));
  Place& place = at(index);
  if (place.counters == 0) place.id = id;
  if (place.id == id) place.limit = limit;
  ++place.counters;
  note_largest(index, Resource::kCounters);
  return index;
}

void LimitUsage::add_bytes(Index index, std::size_t bytes) noexcept {
  at(index).bytes += bytes;
  note_largest(index, Resource::kBytes);
}

void LimitUsage::note_largest(Index index, Resource resource) noexcept {
  if (used(index, resource) > used(largest(resource), resource)) {
    largest_[number_of(resource)] = index;
  }
}

}  // namespace sluice::memory
