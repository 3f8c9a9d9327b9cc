#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sluice::replay {

// A number of units in 16 bits: exact up to 4096, above rounded up by less than 0.05 %.
using PeakCode = std::uint16_t;
inline constexpr std::size_t kPeakCodes = 4096 + 21 * 2048 + 1;
inline constexpr std::uint64_t kMostUnits = 0xFFFFFFFF;

// Units beyond kMostUnits count as kMostUnits. Larger units never have a smaller code.
PeakCode peak_code(std::uint64_t units) noexcept;
// Returns the largest number with this code.
std::uint64_t units_of(PeakCode code) noexcept;

// The peaks of each key: one PeakCode for each of a fixed number of measures. A key is known by a
// hash of 64 bits.
//
// Not thread-safe. Cost: 8 bytes for a key and 2 for each of its peaks, and 5 to 8 for its place in
// the index.
class Peaks {
 public:
  explicit Peaks(std::size_t measures);

  // Returns the number of a key. A new key gets the next one, and peaks of 0.
  std::uint32_t number_of(std::uint64_t hash);
  // The peaks of the key with this number.
  std::span<PeakCode> of(std::uint32_t key) const noexcept {
    return {entry(key) + kHashCodes, stride_ - kHashCodes};
  }
  std::size_t keys() const noexcept { return keys_; }
  // The memory in use.
  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t kPerChunk = 4096;
  static constexpr std::uint32_t kNoKey = 0xFFFFFFFF;
  static constexpr std::size_t kHashCodes = sizeof(std::uint64_t) / sizeof(PeakCode);

  PeakCode* entry(std::size_t key) const noexcept {
    return chunks_[key / kPerChunk].get() + key % kPerChunk * stride_;
  }
  std::uint64_t hash_of(std::size_t key) const noexcept;
  std::size_t place_of(std::uint64_t hash) const noexcept;
  void grow();

  std::size_t stride_;  // of an entry, in codes: the hash and the peaks
  std::size_t keys_ = 0;
  std::vector<std::unique_ptr<PeakCode[]>> chunks_;  // so that a growing table copies nothing
  std::vector<std::uint32_t> index_;                 // open addressing
};

}  // namespace sluice::replay
