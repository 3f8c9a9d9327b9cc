#include "insight/key_sketch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace sluice::insight {
namespace {

// Returns how much of the text is kept: whole characters if it is UTF-8.
std::size_t kept_size(std::string_view text) noexcept {
  if (text.size() <= kLongestText) return text.size();
  std::size_t size = kLongestText;
  while (kLongestText - size < 3 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return size;
}

}  // namespace

void KeySketch::add(std::uint64_t hash, std::string_view text) noexcept {
  ++total_;
  if (!chains_.empty()) {
    for (std::uint16_t i = chain_of(hash); i != kNone; i = cells_[i].next) {
      if (cells_[i].hash != hash) continue;
      ++counts_[i];
      return;
    }
  }
  if (counts_.size() >= most_ || !append()) {
    is_exact_ = false;
    if (counts_.empty()) return;
    replace_least();
  }
  write(changed_, hash, text);
}

// Makes room for one more key, which counts as asked once. Returns false without memory.
bool KeySketch::append() try {
  const std::size_t size = counts_.size() + 1;
  if (size > counts_.capacity()) {
    const std::size_t room = std::min(most_, std::max<std::size_t>(16, 2 * counts_.capacity()));
    cells_.reserve(room);
    texts_.reserve(room);
    counts_.reserve(room);
  }
  if (counts_.capacity() > chains_.size()) grow_chains();
  cells_.resize(size);
  texts_.resize(size);
  counts_.push_back(1);
  changed_ = size - 1;
  if (size == 1) least_ = 1;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void KeySketch::grow_chains() {
  std::vector<std::uint16_t> chains(std::bit_ceil(2 * counts_.capacity()), kNone);
  chains_.swap(chains);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    std::uint16_t& chain = chain_of(cells_[i].hash);
    cells_[i].next = chain;
    chain = static_cast<std::uint16_t>(i);
  }
}

// Takes the place of a key with the least count, and counts one more.
void KeySketch::replace_least() noexcept {
  changed_ = find_least();
  Cell& old = cells_[changed_];
  std::uint16_t* link = &chain_of(old.hash);
  while (*link != changed_) link = &cells_[*link].next;
  *link = old.next;
  old.error = counts_[changed_]++;
}

void KeySketch::write(std::size_t index, std::uint64_t hash, std::string_view text) noexcept {
  Cell& cell = cells_[index];
  std::uint16_t& chain = chain_of(hash);
  cell.hash = hash;
  cell.next = chain;
  chain = static_cast<std::uint16_t>(index);
  const std::size_t kept = kept_size(text);
  cell.text_size = static_cast<std::uint8_t>(kept);
  cell.is_cut = kept < text.size();
  std::memcpy(texts_[index].bytes.data(), text.data(), kept);
}

// Counts only grow, so what the cursor has passed stays greater than `least_`.
std::size_t KeySketch::find_least() noexcept {
  for (;;) {
    for (; cursor_ < counts_.size(); ++cursor_) {
      if (counts_[cursor_] == least_) return cursor_;
    }
    least_ = *std::min_element(counts_.begin(), counts_.end());
    cursor_ = 0;
  }
}

void KeySketch::clear() noexcept {
  counts_.clear();
  cells_.clear();
  texts_.clear();
  std::fill(chains_.begin(), chains_.end(), kNone);
  total_ = 0;
  least_ = 0;
  cursor_ = 0;
  is_exact_ = true;
}

std::uint64_t KeySketch::floor() const noexcept {
  if (is_exact_) return 0;
  if (counts_.empty()) return total_;
  return *std::min_element(counts_.begin(), counts_.end());
}

CountedKey KeySketch::at(std::size_t index) const noexcept {
  const Cell& cell = cells_[index];
  return {cell.hash,
          counts_[index],
          cell.error,
          {texts_[index].bytes.data(), cell.text_size},
          cell.is_cut};
}

std::size_t KeySketch::bytes() const noexcept {
  return sizeof *this + counts_.capacity() * sizeof counts_[0] +
         cells_.capacity() * sizeof cells_[0] + texts_.capacity() * sizeof texts_[0] +
         chains_.capacity() * sizeof chains_[0];
}

}  // namespace sluice::insight
