#include "stores/memory/fingerprint.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <iterator>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memory {
namespace {

void finish(const XXH128_hash_t& hash, std::uint64_t salt, Fingerprint& out) noexcept {
  const std::uint64_t low = hash.low64 ^ salt;
  out.low = low != 0 ? low : 1;
  out.high = hash.high64;
}

}  // namespace

FingerprintMaker::FingerprintMaker() {
  static_assert(sizeof(secret_.bytes) >= XXH3_SECRET_SIZE_MIN);
  if (::getentropy(secret_.bytes, sizeof(secret_.bytes)) != 0 ||
      ::getentropy(secret_.salts, sizeof(secret_.salts)) != 0) {
    throw std::system_error(errno, std::generic_category(), "the system provides no random bytes");
  }
  make_salts();
}

FingerprintMaker::FingerprintMaker(const Secret& secret) noexcept : secret_(secret) {
  make_salts();
}

void FingerprintMaker::make_salts() noexcept {
  constexpr std::size_t kRandom = std::size(Secret{}.salts[0]);
  static_assert(kAlgorithms.size() <= 2 * kRandom);
  for (std::size_t keyspace = 0; keyspace < std::size(salts_); ++keyspace) {
    const auto& random = secret_.salts[keyspace];
    for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
      salts_[keyspace][i] =
          i < kRandom ? random[i] : random[i - kRandom] ^ std::rotl(random[(i + 1) % kRandom], 32);
    }
  }
}

// With the hash inlined, of which the compiler leaves out all that is for longer keys.
[[gnu::flatten]] void FingerprintMaker::write(const Charge& charge,
                                              Fingerprint& out) const noexcept {
  constexpr std::size_t kShort = 16;
  const std::string_view key = charge.key;
  if (key.size() > kShort || !charge.tag.empty()) {
    return write_long(charge, out);
  }
  finish(XXH3_128bits_withSecret(key.data(), key.size(), secret_.bytes, sizeof(secret_.bytes)),
         salt(charge.limit.algorithm(), charge.rule.keyspace), out);
}

// As above for the keys of guards and rules.
[[gnu::noinline, gnu::flatten]] void FingerprintMaker::write_long(const Charge& charge,
                                                                  Fingerprint& out) const noexcept {
  constexpr std::size_t kMiddle = 128;
  const std::string_view key = charge.key;
  if (key.size() > kMiddle || !charge.tag.empty()) {
    out = (*this)(charge.tag, key, charge.limit.algorithm(), charge.rule.keyspace);
    return;
  }
  finish(XXH3_128bits_withSecret(key.data(), key.size(), secret_.bytes, sizeof(secret_.bytes)),
         salt(charge.limit.algorithm(), charge.rule.keyspace), out);
}

[[gnu::noinline]] Fingerprint FingerprintMaker::operator()(std::string_view tag,
                                                           std::string_view key,
                                                           Algorithm algorithm,
                                                           Keyspace keyspace) const noexcept {
  XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret_.bytes, sizeof(secret_.bytes));
  if (!tag.empty()) [[unlikely]] {
    // The hashes of tag and key are one text of fixed size, so that no two pairs have the same
    // text.
    const XXH128_hash_t both[2] = {
        XXH3_128bits_withSecret(tag.data(), tag.size(), secret_.bytes, sizeof(secret_.bytes)),
        hash};
    hash = XXH3_128bits_withSecret(both, sizeof(both), secret_.bytes, sizeof(secret_.bytes));
  }
  Fingerprint made;
  finish(hash, salt(algorithm, keyspace), made);
  return made;
}

}  // namespace sluice::memory
