#include "limiter/random_bytes.h"

namespace sluice {
namespace {

// One word of each of the four blocks.
typedef std::uint32_t Lanes __attribute__((vector_size(16)));

inline Lanes rotated(Lanes value, int bits) noexcept {
  return value << bits | value >> (32 - bits);
}

inline void quarter_round(Lanes& a, Lanes& b, Lanes& c, Lanes& d) noexcept {
  a += b;
  d = rotated(d ^ a, 16);
  c += d;
  b = rotated(b ^ c, 12);
  a += b;
  d = rotated(d ^ a, 8);
  c += d;
  b = rotated(b ^ c, 7);
}

constexpr std::uint32_t kConstants[] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
constexpr std::size_t kWords = 16;
constexpr std::size_t kBlocks = 4;

}  // namespace

void RandomBytes::write_blocks(const Key& key, Piece& out) noexcept {
  Lanes first[kWords] = {};
  for (std::size_t i = 0; i < 4; ++i) first[i] = Lanes{} + kConstants[i];
  for (std::size_t i = 0; i < key.size(); ++i) first[4 + i] = Lanes{} + key[i];
  first[12] = Lanes{0, 1, 2, 3};
  Lanes x[kWords];
  for (std::size_t i = 0; i < kWords; ++i) x[i] = first[i];
  for (int round = 0; round < 20; round += 2) {
    for (std::size_t i = 0; i < 4; ++i) quarter_round(x[i], x[4 + i], x[8 + i], x[12 + i]);
    for (std::size_t i = 0; i < 4; ++i) {
      quarter_round(x[i], x[4 + (i + 1) % 4], x[8 + (i + 2) % 4], x[12 + (i + 3) % 4]);
    }
  }
  for (std::size_t block = 0; block < kBlocks; ++block) {
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint32_t word = x[i][block] + first[i][block];
      for (std::size_t byte = 0; byte < 4; ++byte) {
        out[(block * kWords + i) * 4 + byte] = static_cast<std::uint8_t>(word >> (8 * byte));
      }
    }
  }
}

}  // namespace sluice
