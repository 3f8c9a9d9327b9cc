#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice {

// Names a permit of `concurrency` limits (Charge::permit). Who knows it can release the permit, so
// nobody can guess it: it has 96 random bits, whose key is from the system's random source.
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

  // The bytes of the name.
  constexpr Bytes bytes() const noexcept { return std::bit_cast<Bytes>(words_); }
  friend constexpr bool operator==(const PermitId&, const PermitId&) = default;

 private:
  std::array<std::uint32_t, 3> words_{};
};

}  // namespace sluice
