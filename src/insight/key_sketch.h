#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::insight {

// Hashes keys with a secret of the process, so that nobody outside can choose keys with the same
// hash, or test which key a hash in a log belongs to.
//
// Thread-safety: any member from any thread. Cost: about 5 ns for a short key.
class KeyHash {
 public:
  // Errors: std::system_error if the system has no random bytes.
  KeyHash();
  std::uint64_t operator()(std::string_view key) const noexcept;
  // Returns a hash as 16 hexadecimal digits.
  static std::array<char, 16> digits(std::uint64_t hash) noexcept;
  static std::string text(std::uint64_t hash);

 private:
  std::array<unsigned char, 136> secret_{};
};

// The most bytes of a key's text that are kept. A longer text is cut at a character.
inline constexpr std::size_t kLongestText = 79;

// A key and how often it was counted. The true number is at most `count` and at least
// `count - error`.
struct CountedKey {
  std::uint64_t hash = 0;
  std::uint64_t count = 0;
  std::uint64_t error = 0;
  std::string_view text = {};
  bool is_cut = false;  // the text was longer
};

// The most frequent keys of a stream in bounded memory: the algorithm Space-Saving (Metwally,
// Agrawal, El Abbadi: "Efficient computation of frequent and top-k elements in data streams") with
// a filter (Homem, Carvalho: "Finding top-k elements in data streams"). It counts `most` keys.
// Other keys are counted together, by cells of their hashes, and a key whose cell has reached the
// least count of an entry replaces that key and continues from there. So a count is never too
// small, and too large by at most total() / most.
//
// Thread-safety: one thread at a time. Cost: add() takes a few ns, and some 10 ns for a key without
// an entry; it allocates nothing once the sketch was full. A key takes 120 bytes.
class KeySketch {
 public:
  // `most` is 1 to 16384.
  explicit KeySketch(std::size_t most) : most_(most) {}

  // Counts a key by its hash. Without memory for a further key, it replaces one.
  void add(std::uint64_t hash, std::string_view text) noexcept;
  // Counts something without a key.
  void add_keyless() noexcept { ++total_; }
  // Forgets all keys, and keeps its memory.
  void clear() noexcept;

  std::uint64_t total() const noexcept { return total_; }
  std::size_t size() const noexcept { return counts_.size(); }
  // Returns the maximum that can have been added for a key without being counted.
  std::uint64_t floor() const noexcept;
  CountedKey at(std::size_t index) const noexcept;

 private:
  static constexpr std::uint16_t kNone = 0xFFFF;
  static constexpr std::size_t kCellsPerKey = 8;
  struct Entry {
    std::uint64_t hash = 0;
    std::uint32_t error = 0;
    std::uint16_t next = kNone;  // of the same chain
    std::uint8_t text_size = 0;
    bool is_cut = false;
  };
  using Text = std::array<char, kLongestText + 1>;

  std::uint16_t& chain_of(std::uint64_t hash) noexcept {
    return chains_[hash & (chains_.size() - 1)];
  }
  std::uint16_t& cell_of(std::uint64_t hash) noexcept {
    return cells_[(hash >> 32) & (cells_.size() - 1)];
  }
  bool append();
  void grow_chains();
  bool make_cells() noexcept;
  bool count_below_least(std::uint16_t& cell) const noexcept;
  void replace_changed() noexcept;
  void write(std::size_t index, std::uint64_t hash, std::string_view text) noexcept;
  std::size_t find_least() noexcept;

  std::size_t most_;
  std::uint64_t total_ = 0;
  // Of each key. The counts are apart, because find_least() reads many of them.
  std::vector<std::uint32_t> counts_;
  std::vector<Entry> entries_;
  std::vector<Text> texts_;
  std::vector<std::uint16_t> chains_;  // the first key of each; a power of two
  // How often the keys of a cell that have no entry were added, at least; kNone: any number. Made
  // when a key is replaced for the first time; a power of two.
  std::vector<std::uint16_t> cells_;
  std::uint32_t least_ = 0;  // no count is less
  std::size_t cursor_ = 0;   // where to look for a count of `least_`
  std::size_t changed_ = 0;  // the key that is being written
  bool is_exact_ = true;     // no key was replaced
};

// The most frequent keys of some time, packed. Frames can be added to each other; the counts of the
// sum are never too small, and too large by at most `error` of the key. `error` is at most
// total() / k, where k is the least number of keys that a frame or sketch kept that was full
// (Agarwal, Cormode, Huang, Phillips, Wei, Yi: "Mergeable summaries").
//
// Thread-safety: one thread at a time. Cost: the memory is at most kMostBytes; adding takes some
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
