#include "stores/memory/fingerprint.h"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memory {

FingerprintMaker::FingerprintMaker() {
  static_assert(kSecretSize >= XXH3_SECRET_SIZE_MIN);
  if (::getentropy(secret_, sizeof(secret_)) != 0 || ::getentropy(salts_, sizeof(salts_)) != 0) {
    throw std::system_error(errno, std::generic_category(), "the system provides no random bytes");
  }
}

[[gnu::noinline]] void FingerprintMaker::write(std::string_view tag, std::string_view key,
                                               Algorithm algorithm, Keyspace keyspace,
                                               Fingerprint& out) const noexcept {
  XXH128_hash_t hash = XXH3_128bits_withSecret(key.data(), key.size(), secret_, sizeof(secret_));
  if (!tag.empty()) [[unlikely]] {
    // The hashes of tag and key are one text of fixed size, so that no two pairs have the same
    // text.
    const XXH128_hash_t both[2] = {
        XXH3_128bits_withSecret(tag.data(), tag.size(), secret_, sizeof(secret_)), hash};
    hash = XXH3_128bits_withSecret(both, sizeof(both), secret_, sizeof(secret_));
  }
  const std::uint64_t salt =
      salts_[static_cast<std::size_t>(keyspace)][static_cast<std::size_t>(algorithm)];
  const std::uint64_t low = hash.low64 ^ salt;
  out.low = low != 0 ? low : 1;
  out.high = hash.high64;
}

}  // namespace sluice::memory
