#include "insight/key_frame.h"

#include <algorithm>

namespace sluice::insight {
namespace {

bool is_more(const CountedKey& a, const CountedKey& b) noexcept {
  return a.count != b.count ? a.count > b.count : a.hash < b.hash;
}

// By the number of times that a key was counted for certain: it is closer to the truth than the
// most.
bool is_surer(const CountedKey& a, const CountedKey& b) noexcept {
  const std::uint64_t of_a = a.count - a.error, of_b = b.count - b.error;
  return of_a != of_b ? of_a > of_b : is_more(a, b);
}

bool is_before(const CountedKey& a, const CountedKey& b) noexcept { return a.hash < b.hash; }

}  // namespace

KeyFrame::KeyFrame(const KeySketch& sketch, std::size_t most)
    : total_(sketch.total()), floor_(sketch.floor()) {
  std::vector<CountedKey> keys;
  keys.reserve(sketch.size());
  for (std::size_t i = 0; i < sketch.size(); ++i) keys.push_back(sketch.at(i));
  std::sort(keys.begin(), keys.end(), is_before);
  keep(keys, most);
}

CountedKey KeyFrame::at(std::size_t index) const noexcept {
  const Row& row = rows_[index];
  return {row.hash, row.count, row.error,
          std::string_view(texts_).substr(row.text_at, row.text_size), row.is_cut};
}

// A key that only one frame has may have been counted in the other as often as its floor says.
void KeyFrame::add(const KeyFrame& other, std::size_t most) {
  std::vector<CountedKey> keys;
  keys.reserve(size() + other.size());
  std::size_t i = 0, j = 0;
  while (i < size() || j < other.size()) {
    const bool is_own = i < size() && (j == other.size() || rows_[i].hash <= other.rows_[j].hash);
    const bool is_other = j < other.size() && (i == size() || other.rows_[j].hash <= rows_[i].hash);
    CountedKey key = is_own ? at(i) : other.at(j);
    if (is_own && is_other) {
      key.count += other.rows_[j].count;
      key.error += other.rows_[j].error;
    } else {
      const std::uint64_t missed = is_own ? other.floor_ : floor_;
      key.count += missed;
      key.error += missed;
    }
    keys.push_back(key);
    i += is_own ? 1 : 0;
    j += is_other ? 1 : 0;
  }
  total_ += other.total_;
  floor_ += other.floor_;
  keep(keys, most);
}

void KeyFrame::keep(std::vector<CountedKey>& keys, std::size_t most) {
  const auto bytes_of = [](const CountedKey& key) { return sizeof(Row) + key.text.size(); };
  std::size_t bytes = 0;
  for (const CountedKey& key : keys) bytes += bytes_of(key);
  if (keys.size() > most || bytes > kMostBytes) {
    std::sort(keys.begin(), keys.end(), is_more);
    std::size_t kept = 0;
    for (bytes = 0; kept < std::min(most, keys.size()); ++kept) {
      if (bytes + bytes_of(keys[kept]) > kMostBytes) break;
      bytes += bytes_of(keys[kept]);
    }
    floor_ = std::max(floor_, keys[kept].count);
    keys.resize(kept);
    std::sort(keys.begin(), keys.end(), is_before);
  }
  std::vector<Row> rows;
  std::string texts;
  rows.reserve(keys.size());
  texts.reserve(bytes - keys.size() * sizeof(Row));
  for (const CountedKey& key : keys) {
    rows.push_back({key.hash, key.count, key.error, static_cast<std::uint32_t>(texts.size()),
                    static_cast<std::uint8_t>(key.text.size()), key.is_cut});
    texts += key.text;
  }
  rows_ = std::move(rows);
  texts_ = std::move(texts);
}

std::vector<CountedKey> KeyFrame::top(std::size_t most) const {
  std::vector<CountedKey> keys;
  keys.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) keys.push_back(at(i));
  const std::size_t shown = std::min(most, keys.size());
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(shown);
  std::partial_sort(keys.begin(), end, keys.end(), is_surer);
  keys.resize(shown);
  return keys;
}

std::size_t KeyFrame::kept_bytes() const noexcept {
  return sizeof *this + rows_.capacity() * sizeof(Row) + texts_.capacity();
}

}  // namespace sluice::insight
