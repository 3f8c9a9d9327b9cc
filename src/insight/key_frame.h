#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "insight/key_sketch.h"

namespace sluice::insight {

// The most frequent keys of some time, packed. Frames can be added to each other; the counts of the
// sum are never too small, and too large by at most `error` of the key. `error` is at most
// total() / k, where k is the least number of keys that a frame or sketch kept that was full
// (Agarwal, Cormode, Huang, Phillips, Wei, Yi: "Mergeable summaries").
//
// Thread-safety: one thread at a time. Cost: kept_bytes() is at most kMostBytes; adding takes some
// 10 µs for full frames.
class KeyFrame {
 public:
  static constexpr std::size_t kMostKeys = 256;
  static constexpr std::size_t kMostBytes = std::size_t{12} << 10;

  KeyFrame() = default;
  // Keeps at most `most` keys, and fewer if their texts are long.
  explicit KeyFrame(const KeySketch& sketch, std::size_t most = kMostKeys);

  void add(const KeyFrame& other, std::size_t most = kMostKeys);

  bool empty() const noexcept { return total_ == 0; }
  std::uint64_t total() const noexcept { return total_; }
  // Returns the maximum that can have been counted for a key that is not here.
  std::uint64_t floor() const noexcept { return floor_; }
  // Returns the keys that were counted most, those with the highest `count - error` first. They
  // borrow the frame.
  std::vector<CountedKey> top(std::size_t most) const;
  std::size_t size() const noexcept { return rows_.size(); }
  std::size_t kept_bytes() const noexcept;

 private:
  struct Row {
    std::uint64_t hash;
    std::uint64_t count;
    std::uint64_t error;
    std::uint32_t text_at;
    std::uint8_t text_size;
    bool is_cut;
  };

  CountedKey at(std::size_t index) const noexcept;
  // Replaces the rows with the most frequent of these keys, whose texts may be in texts_.
  void keep(std::vector<CountedKey>& keys, std::size_t most);

  std::uint64_t total_ = 0;
  std::uint64_t floor_ = 0;
  std::vector<Row> rows_;  // in the order of their hashes
  std::string texts_;
};

}  // namespace sluice::insight
