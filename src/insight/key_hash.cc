#include "insight/key_hash.h"

#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <system_error>

namespace sluice::insight {

KeyHash::KeyHash() {
  static_assert(sizeof(secret_) >= XXH3_SECRET_SIZE_MIN);
  if (getentropy(secret_.data(), secret_.size()) != 0) {
    throw std::system_error(errno, std::generic_category(), "no random bytes to hash keys with");
  }
}

std::uint64_t KeyHash::operator()(std::string_view key) const noexcept {
  return XXH3_64bits_withSecret(key.data(), key.size(), secret_.data(), secret_.size());
}

std::array<char, 16> KeyHash::digits(std::uint64_t hash) noexcept {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<char, 16> hex{};
  for (std::size_t i = hex.size(); i-- > 0; hash >>= 4) hex[i] = kDigits[hash & 0xF];
  return hex;
}

std::string KeyHash::text(std::uint64_t hash) {
  const auto hex = digits(hash);
  return {hex.data(), hex.size()};
}

}  // namespace sluice::insight
