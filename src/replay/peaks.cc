#include "replay/peaks.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice::replay {
namespace {

constexpr std::uint64_t kExact = 4096;
constexpr std::uint64_t kMantissas = 2048;

}  // namespace

PeakCode peak_code(std::uint64_t units) noexcept {
  units = std::min(units, kMostUnits);
  if (units <= kExact) return static_cast<PeakCode>(units);
  const auto shift = static_cast<unsigned>(std::bit_width(units - 1)) - 12;
  const std::uint64_t mantissa = (units + (std::uint64_t{1} << shift) - 1) >> shift;
  return static_cast<PeakCode>(kExact + (shift - 1) * kMantissas + (mantissa - kMantissas));
}

std::uint64_t units_of(PeakCode code) noexcept {
  if (code <= kExact) return code;
  const std::uint64_t above = code - kExact - 1;
  const std::uint64_t mantissa = above % kMantissas + kMantissas + 1;
  return std::min(mantissa << (above / kMantissas + 1), kMostUnits);
}

Peaks::Peaks(std::size_t measures) : stride_(kHashCodes + measures), index_(1024, kNoKey) {}

std::uint32_t Peaks::number_of(std::uint64_t hash) {
  std::size_t place = place_of(hash);
  if (index_[place] == kNoKey) {
    if ((keys_ + 1) * 5 > index_.size() * 4) {
      grow();
      place = place_of(hash);
    }
    if (keys_ % kPerChunk == 0) {
      chunks_.push_back(std::make_unique<PeakCode[]>(kPerChunk * stride_));
    }
    index_[place] = static_cast<std::uint32_t>(keys_++);
    std::memcpy(entry(keys_ - 1), &hash, sizeof(hash));
  }
  return index_[place];
}

std::size_t Peaks::bytes() const noexcept {
  return chunks_.size() * kPerChunk * stride_ * sizeof(PeakCode) +
         index_.capacity() * sizeof(std::uint32_t);
}

std::uint64_t Peaks::hash_of(std::size_t key) const noexcept {
  std::uint64_t hash = 0;
  std::memcpy(&hash, entry(key), sizeof(hash));
  return hash;
}

// Returns the place of the key in the index, or where it belongs.
std::size_t Peaks::place_of(std::uint64_t hash) const noexcept {
  const auto scaled = (hash >> 32) * index_.size();  // fewer than 2^32 places
  std::size_t place = scaled >> 32;
  while (index_[place] != kNoKey && hash_of(index_[place]) != hash) {
    if (++place == index_.size()) place = 0;
  }
  return place;
}

void Peaks::grow() {
  index_.assign(0, 0);
  index_.shrink_to_fit();  // before the larger one is allocated
  index_.assign(std::max<std::size_t>(1024, keys_ + keys_ / 4 * 3), kNoKey);
  for (std::size_t key = 0; key < keys_; ++key) {
    index_[place_of(hash_of(key))] = static_cast<std::uint32_t>(key);
  }
}

}  // namespace sluice::replay
