#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "sluice/limit.h"

namespace sluice::server::resp {

// Remembers the limits that requests give as numbers. Most requests use the same few limits, and
// creating one costs more than the rest of the request.
class LimitCache {
 public:
  struct Numbers {
    std::uint64_t burst;
    std::uint64_t count;
    std::uint64_t period;
    friend bool operator==(const Numbers&, const Numbers&) = default;
  };

  // Returns the limit with these numbers, or null.
  const Limit* find(const Numbers& numbers) const noexcept {
    const auto& entry = entries_[place(numbers)];
    return entry && entry->numbers == numbers ? &entry->limit : nullptr;
  }
  const Limit& keep(const Numbers& numbers, const Limit& limit) {
    return entries_[place(numbers)].emplace(Entry{numbers, limit}).limit;
  }

 private:
  static constexpr std::size_t kPlaces = 64;
  struct Entry {
    Numbers numbers;
    Limit limit;
  };

  static std::size_t place(const Numbers& numbers) noexcept {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    std::uint64_t mixed = numbers.burst * kOdd ^ numbers.count;
    mixed = mixed * kOdd ^ numbers.period;
    return static_cast<std::size_t>(mixed * kOdd >> 58);
  }

  std::array<std::optional<Entry>, kPlaces> entries_;
};

}  // namespace sluice::server::resp
