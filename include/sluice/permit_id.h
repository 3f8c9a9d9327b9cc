#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// The length of an id that a caller chooses, in bytes.
inline constexpr std::size_t kMaxIdBytes = 128;

// Names a permit of `concurrency` limits, or a hold of budgets (Charge::permit). Who knows the name
// of a permit can release it, so nobody can guess it: it has 96 random bits, whose key is from the
// system's random source. That of a hold follows from the id that the caller has chosen.
//
// A plain value of 12 bytes.
class PermitId {
 public:
  using Bytes = std::array<std::uint8_t, 12>;

  // All zero: no permit has this name.
  constexpr PermitId() = default;
  // The name of a permit that exists.
  constexpr explicit PermitId(const Bytes& bytes) noexcept
      : words_(std::bit_cast<decltype(words_)>(bytes)) {}
  // A new name. Errors: throws std::system_error if the system has no random bytes.
  static PermitId random();
  // The bytes of a new name as text, for an id that nobody else has: 24 letters and digits.
  static std::string random_text();
  // The name of a hold with this id, of 1 to kMaxIdBytes bytes, whatever they are: the same in all
  // processes and versions. Two ids have the same name with a probability of 2^-96.
  static PermitId named(std::string_view id) noexcept;

  // The bytes of the name.
  constexpr Bytes bytes() const noexcept { return std::bit_cast<Bytes>(words_); }
  // Without a branch, and without the call of memcmp() that compilers make of a comparison of
  // arrays.
  friend constexpr bool operator==(const PermitId& a, const PermitId& b) noexcept {
    return ((a.words_[0] ^ b.words_[0]) | (a.words_[1] ^ b.words_[1]) |
            (a.words_[2] ^ b.words_[2])) == 0;
  }

 private:
  std::array<std::uint32_t, 3> words_{};
};

}  // namespace sluice
