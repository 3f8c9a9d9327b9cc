#include "rules/text_set.h"

#include <bit>
#include <functional>
#include <limits>

namespace sluice::rules {
namespace {

std::uint64_t hash_of(std::string_view text) noexcept {
  return std::hash<std::string_view>()(text);
}

}  // namespace

bool TextSet::add(std::string_view text) {
  const std::size_t end = texts_.size() + kLengthBytes + text.size();
  if (text.size() > std::numeric_limits<std::uint16_t>::max()) return false;
  if (end >= std::numeric_limits<std::uint32_t>::max()) return false;
  texts_.push_back(static_cast<char>(text.size() & 0xFF));
  texts_.push_back(static_cast<char>(text.size() >> 8));
  texts_.append(text);
  ++count_;
  return true;
}

void TextSet::build() {
  texts_.shrink_to_fit();
  slots_.assign(std::bit_ceil(count_ + count_ / 2 + 1), 0);
  for (std::size_t offset = 0; offset < texts_.size(); offset += kLengthBytes + at(offset).size()) {
    insert(offset);
  }
}

std::string_view TextSet::at(std::size_t offset) const noexcept {
  const auto low = static_cast<unsigned char>(texts_[offset]);
  const auto high = static_cast<unsigned char>(texts_[offset + 1]);
  return std::string_view(texts_).substr(offset + kLengthBytes, low + std::size_t{high} * 256);
}

void TextSet::insert(std::size_t offset) noexcept {
  const std::string_view text = at(offset);
  if (contains(text)) return;
  const std::uint64_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot] != 0) slot = (slot + 1) & mask;
  slots_[slot] = (hash >> 32 << 32) | (offset + 1);
}

bool TextSet::contains(std::string_view text) const noexcept {
  if (slots_.empty()) return false;
  const std::uint64_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (slots_[slot] >> 32 != hash >> 32) continue;
    if (at((slots_[slot] & 0xFFFFFFFF) - 1) == text) return true;
  }
  return false;
}

}  // namespace sluice::rules
