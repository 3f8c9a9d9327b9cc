#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/store.h"

namespace sluice::memory {

// What a counter is remembered by: 128 bits of a keyed hash of its keyspace, tag, key and
// algorithm. Two counters share one with a chance of 2^-128; without the store's secret there is no
// known way to find two. `low` of a counter's is never 0: that is an empty slot.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend constexpr bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// The secret of one store: made from the system's randomness, never told.
//
// Thread-safety: const members from any thread. Cost: about 5 ns for a short key, memory speed for
// a long one.
class FingerprintMaker {
 public:
  // Throws std::system_error if the system has no randomness to give.
  FingerprintMaker();
  Fingerprint operator()(const Charge& charge) const noexcept {
    return (*this)(charge.tag, charge.key, charge.limit.algorithm(), charge.keyspace);
  }
  Fingerprint operator()(std::string_view tag, std::string_view key, Algorithm algorithm,
                         Keyspace keyspace = Keyspace::kCallers) const noexcept;

 private:
  static constexpr std::size_t kSecretSize = 192;

  alignas(64) unsigned char secret_[kSecretSize];
  std::uint64_t salts_[2][8];  // by keyspace and algorithm
};

}  // namespace sluice::memory
