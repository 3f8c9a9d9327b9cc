#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::rules {

// A set of texts, each of at most 65535 bytes.
//
// All texts are in one string, each after its length. An open hash table of 8 bytes a slot finds
// them: 32 bits of the hash and the offset.
//
// Thread-safety: contains() from any thread once build() was called. Cost: for each text its bytes,
// 2 bytes, and 11 to 22 bytes of the table; at most 4 GiB of texts.
class TextSet {
 public:
  // Returns false if the set has no room for it.
  bool add(std::string_view text);
  // Call it after the last add() and before the first contains().
  void build();
  bool contains(std::string_view text) const noexcept;
  bool empty() const noexcept { return count_ == 0; }
  std::size_t bytes() const noexcept {
    return texts_.capacity() + slots_.capacity() * sizeof(std::uint64_t);
  }

 private:
  static constexpr std::size_t kLengthBytes = 2;
  std::string_view at(std::size_t offset) const noexcept;
  void insert(std::size_t offset) noexcept;

  std::string texts_;
  std::size_t count_ = 0;
  std::vector<std::uint64_t> slots_;  // hash << 32 | (offset + 1); 0: free
};

}  // namespace sluice::rules
