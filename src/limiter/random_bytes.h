#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

// Random bytes that nobody can guess: the stream of ChaCha20 (RFC 8439) with a key from the system.
// The first bytes of each piece of the stream are the next key, so that the memory of the process
// does not contain bytes that were given before.
//
// A plain value; not thread-safe. Cost: 1 ns a byte.
class RandomBytes {
 public:
  static constexpr std::size_t kKeyBytes = 32;
  using Key = std::array<std::uint32_t, kKeyBytes / 4>;

  void set_key(const Key& key) noexcept {
    key_ = key;
    left_ = 0;
  }
  // Copies bytes out of the stream, at most kPiece - kKeyBytes.
  void take(void* out, std::size_t size) noexcept {
    if (left_ < size) refill();
    left_ -= size;
    std::memcpy(out, piece_.data() + left_, size);
    std::memset(piece_.data() + left_, 0, size);
  }

  // Writes four blocks of the stream with the counters 0 to 3 and the nonce 0.
  static constexpr std::size_t kPiece = 256;
  using Piece = std::array<std::uint8_t, kPiece>;
  static void write_blocks(const Key& key, Piece& out) noexcept;

 private:
  void refill() noexcept {
    write_blocks(key_, piece_);
    std::memcpy(key_.data(), piece_.data(), kKeyBytes);
    std::memset(piece_.data(), 0, kKeyBytes);
    std::memmove(piece_.data(), piece_.data() + kKeyBytes, kPiece - kKeyBytes);
    left_ = kPiece - kKeyBytes;
  }

  Key key_{};
  std::size_t left_ = 0;
  Piece piece_{};
};

}  // namespace sluice
