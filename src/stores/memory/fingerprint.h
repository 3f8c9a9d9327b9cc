#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/store.h"

namespace sluice::memory {

// The name of a counter in a table: 128 bits of a keyed hash of its keyspace, tag, key and
// algorithm. Two counters have the same fingerprint with a probability of 2^-128. Without the
// store's secret there is no known way to find two. `low` is 0 in an empty slot only.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  // A part of the key of a slot that another thread may change, and the change.
  std::uint64_t peek_low() const noexcept { return __atomic_load_n(&low, __ATOMIC_RELAXED); }
  void write(const Fingerprint& next) noexcept {
    __atomic_store_n(&low, next.low, __ATOMIC_RELAXED);
    high = next.high;
  }

  friend constexpr bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// Makes fingerprints with the secret of one store: random bytes, which only snapshots contain.
//
// Thread-safety: const members from any thread. Cost: about 5 ns for a short key, memory speed for
// a long one.
class FingerprintMaker {
 public:
  struct Secret {
    alignas(64) unsigned char bytes[192];
    std::uint64_t salts[2][8];  // by keyspace and algorithm; those of further ones follow from them
  };

  // Throws std::system_error if the system returns no random bytes.
  FingerprintMaker();
  explicit FingerprintMaker(const Secret& secret) noexcept;
  const Secret& secret() const noexcept { return secret_; }

  Fingerprint operator()(const Charge& charge) const noexcept {
    Fingerprint made;
    write(charge, made);
    return made;
  }
  Fingerprint operator()(std::string_view tag, std::string_view key, Algorithm algorithm,
                         Keyspace keyspace = Keyspace::kCallers) const noexcept;
  // Writes the fingerprint where it is kept: a copy of two words just written costs about 6 ns.
  void write(const Charge& charge, Fingerprint& out) const noexcept;

 private:
  void write_long(const Charge& charge, Fingerprint& out) const noexcept;
  std::uint64_t salt(Algorithm algorithm, Keyspace keyspace) const noexcept {
    return salts_[static_cast<std::size_t>(keyspace)][static_cast<std::size_t>(algorithm)];
  }

  void make_salts() noexcept;

  Secret secret_;
  std::uint64_t salts_[2][16];  // a power of two, so that no index is multiplied
};

}  // namespace sluice::memory
