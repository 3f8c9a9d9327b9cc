#define XXH_INLINE_ALL
#include "insight/key_sketch.h"

#include <sys/random.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <system_error>

namespace sluice::insight {

KeyHash::KeyHash() {
  static_assert(sizeof(secret_) >= XXH3_SECRET_SIZE_MIN);
  if (getentropy(secret_.data(), secret_.size()) != 0) {
    throw std::system_error(errno, std::generic_category(), "no random bytes to hash keys with");
  }
}

std::uint64_t KeyHash::operator()(std::string_view key) const noexcept {
  return XXH3_64bits_withSecret(key.data(), key.size(), secret_.data(), secret_.size());
}

std::array<char, 16> KeyHash::digits(std::uint64_t hash) noexcept {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<char, 16> hex{};
  for (std::size_t i = hex.size(); i-- > 0; hash >>= 4) hex[i] = kDigits[hash & 0xF];
  return hex;
}

std::string KeyHash::text(std::uint64_t hash) {
  const auto hex = digits(hash);
  return {hex.data(), hex.size()};
}

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
    for (std::uint16_t i = chain_of(hash); i != kNone; i = entries_[i].next) {
      if (entries_[i].hash != hash) continue;
      ++counts_[i];
      return;
    }
  }
  if (counts_.size() >= most_ || !append()) {
    is_exact_ = false;
    if (counts_.empty() || (cells_.empty() && !make_cells())) return;
    std::uint16_t& cell = cell_of(hash);
    if (count_below_least(cell)) return;
    changed_ = find_least();
    if (count_below_least(cell)) return;  // by the exact least count
    replace_changed();
  }
  write(changed_, hash, text);
}

// Makes room for one more key, which counts as asked once. Returns false without memory.
bool KeySketch::append() try {
  const std::size_t size = counts_.size() + 1;
  if (size > counts_.capacity()) {
    const std::size_t room = std::min(most_, std::max<std::size_t>(16, 2 * counts_.capacity()));
    entries_.reserve(room);
    texts_.reserve(room);
    counts_.reserve(room);
  }
  if (counts_.capacity() > chains_.size()) grow_chains();
  entries_.resize(size);
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
    std::uint16_t& chain = chain_of(entries_[i].hash);
    entries_[i].next = chain;
    chain = static_cast<std::uint16_t>(i);
  }
}

// Makes the cells of the keys without an entry. Returns false without memory.
bool KeySketch::make_cells() noexcept try {
  cells_.resize(std::bit_ceil(kCellsPerKey * most_));
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Counts a key in its cell. Returns false if that could become more than the least count of an
// entry.
bool KeySketch::count_below_least(std::uint16_t& cell) const noexcept {
  if (cell == kNone || cell >= least_) return false;
  ++cell;
  return true;
}

// Takes the place of the key `changed_`, which has the least count. The new key was added at most
// as often as that one, because otherwise its cell would have said more before.
void KeySketch::replace_changed() noexcept {
  Entry& old = entries_[changed_];
  std::uint16_t* link = &chain_of(old.hash);
  while (*link != changed_) link = &entries_[*link].next;
  *link = old.next;
  const std::uint32_t least = counts_[changed_]++;
  std::uint16_t& cell = cell_of(old.hash);
  cell = std::max(cell, static_cast<std::uint16_t>(std::min<std::uint32_t>(least, kNone)));
  old.error = least;
  cursor_ = changed_ + 1;
}

void KeySketch::write(std::size_t index, std::uint64_t hash, std::string_view text) noexcept {
  Entry& entry = entries_[index];
  std::uint16_t& chain = chain_of(hash);
  entry.hash = hash;
  entry.next = chain;
  chain = static_cast<std::uint16_t>(index);
  const std::size_t kept = kept_size(text);
  entry.text_size = static_cast<std::uint8_t>(kept);
  entry.is_cut = kept < text.size();
  std::copy_n(text.begin(), kept, texts_[index].data());
}

// What the cursor has passed may have the least count again, and is found in the next round.
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
  entries_.clear();
  texts_.clear();
  std::fill(chains_.begin(), chains_.end(), kNone);
  std::fill(cells_.begin(), cells_.end(), std::uint16_t{0});
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
  const Entry& entry = entries_[index];
  return {entry.hash,
          counts_[index],
          entry.error,
          {texts_[index].data(), entry.text_size},
          entry.is_cut};
}

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

}  // namespace sluice::insight
