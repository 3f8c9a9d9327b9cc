#include "stores/memory/fingerprint.h"

#include <random>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memory {

FingerprintMaker::FingerprintMaker() {
  static_assert(kSecretSize >= XXH3_SECRET_SIZE_MIN);
  std::random_device entropy;
  for (unsigned char& byte : secret_) byte = static_cast<unsigned char>(entropy());
  for (std::uint64_t& salt : salts_) salt = std::uint64_t{entropy()} << 32 | entropy();
}

Fingerprint FingerprintMaker::operator()(std::string_view key, Algorithm algorithm) const noexcept {
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret_, sizeof(secret_));
  const std::uint64_t low = hash.low64 ^ salts_[static_cast<std::size_t>(algorithm)];
  return {low != 0 ? low : 1, hash.high64};
}

}  // namespace sluice::memory
