// The overrides of a process: packed records in a table behind 256 locks, found by the key of a
// counter. A file of overrides has one JSON object per line and is replaced as a whole.

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "limiter/replacement_file.h"
#include "rules/override_text.h"
#include "sluice/overrides.h"

namespace sluice::rules {

namespace {

// Bits of the first byte, above the kind.
constexpr unsigned kHasPer = 4, kHasBurst = 8, kHasUntil = 16, kHasCalendar = 32;

void put(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7F));
  out += static_cast<char>(value);
}

std::uint64_t take(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// Appends an override as a few bytes: a byte that says what follows, and numbers in groups of seven
// bits.
void pack(const Override& given, std::string& out) {
  const unsigned flags = (given.per ? kHasPer : 0) | (given.burst ? kHasBurst : 0) |
                         (given.until ? kHasUntil : 0) | (given.calendar ? kHasCalendar : 0);
  out += static_cast<char>(static_cast<unsigned>(given.kind) | flags);
  if (given.kind == Override::Kind::kNumbers) put(out, given.limit);
  if (given.per) put(out, static_cast<std::uint64_t>(given.per->count()));
  if (given.calendar) put(out, static_cast<std::uint64_t>(*given.calendar));
  if (given.burst) put(out, *given.burst);
  if (given.until) put(out, static_cast<std::uint64_t>(given.until->time_since_epoch().count()));
  if (given.kind != Override::Kind::kPlan) return;
  put(out, given.plan.size());
  out += given.plan;
}

// Reads what pack() has written at the begin of `bytes`.
Override unpack(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  Override given{.kind = static_cast<Override::Kind>(first & 3)};
  const auto ticks = [&] { return Duration{static_cast<Duration::rep>(take(bytes))}; };
  if (given.kind == Override::Kind::kNumbers) given.limit = take(bytes);
  if ((first & kHasPer) != 0) given.per = ticks();
  if ((first & kHasCalendar) != 0) given.calendar = static_cast<CalendarUnit>(take(bytes));
  if ((first & kHasBurst) != 0) given.burst = take(bytes);
  if ((first & kHasUntil) != 0) given.until = Instant{ticks()};
  if (given.kind == Override::Kind::kPlan) {
    const std::size_t size = take(bytes);
    given.plan = bytes.substr(0, size);
  }
  return given;
}

// The size of "domain|rule|limit". Names contain no '|' (counter_key.h).
std::size_t prefix_size(std::string_view counter) {
  std::size_t at = 0;
  for (int bars = 0; at < counter.size(); ++at) {
    if (counter[at] == '|' && ++bars == 3) break;
  }
  return at;
}

// Makes room for one more in steps of a quarter, so that little is unused.
void grow(auto& of, std::size_t by) {
  if (of.size() + by > of.capacity()) of.reserve(of.size() + by + of.size() / 4);
}

}  // namespace

// A hash table of overrides: packed records in one text, which is written again when a quarter of
// it is waste. The names of domain, rule and limit, with which many keys begin, are stored once.
//
// Thread-safety: none. Cost: about 30 bytes an override, and its key.
class OverrideTable {
 public:
  std::optional<Override> find(std::string_view counter, std::uint32_t hash) const {
    const auto slot = slot_of(counter, hash);
    if (!slot) return std::nullopt;
    return read(entries_[entry_of(slots_[*slot])]);
  }

  // Whether it is new. `counter` has at most Overrides::kLongestKey bytes.
  bool set(std::string_view counter, std::uint32_t hash, const Override& given) {
    if (given.until) soonest_ = std::min(soonest_, *given.until);
    const std::string_view key = counter.substr(prefix_size(counter));
    if (const auto slot = slot_of(counter, hash)) {
      Entry& entry = entries_[entry_of(slots_[*slot])];
      waste_ += entry.size;
      write(entry, key, given);
      drop_waste();
      return false;
    }
    if ((used_slots_ + 1) * 4 > slots_.size() * 3) grow_index();
    const std::uint32_t number = new_entry();
    Entry& entry = entries_[number];
    entry.group = group_of(counter.substr(0, counter.size() - key.size()));
    entry.hash = hash;
    write(entry, key, given);
    take_slot(number);
    return true;
  }

  bool unset(std::string_view counter, std::uint32_t hash) {
    const auto slot = slot_of(counter, hash);
    if (!slot) return false;
    remove(*slot);
    drop_waste();
    return true;
  }

  // Drops those that have ended; costs nothing if none can have. With `out`, appends them to it
  // until it has `most`, and keeps the rest.
  std::size_t drop_ended(Instant now, std::vector<Overrides::Page::Entry>* out, std::size_t most) {
    if (now < soonest_) return 0;
    soonest_ = Instant::max();
    std::size_t dropped = 0;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot] == kEmpty || slots_[slot] == kRemoved) continue;
      const Entry& entry = entries_[entry_of(slots_[slot])];
      const auto until = read(entry).until;
      if (!until) continue;
      if (*until <= now && (out == nullptr || out->size() < most)) {
        if (out != nullptr) out->push_back({counter_of(entry), read(entry)});
        remove(slot);
        ++dropped;
      } else {
        soonest_ = std::min(soonest_, *until);
      }
    }
    drop_waste();
    return dropped;
  }

  // Appends the overrides from entry `at` on, of all rules or of those with a name, until there are
  // `most`. Returns the next entry; 0 at the end.
  std::uint32_t list(std::uint32_t at, std::size_t most, const std::optional<std::string>& rule,
                     std::vector<Overrides::Page::Entry>& out) const {
    for (; at < entries_.size(); ++at) {
      const Entry& entry = entries_[at];
      if (entry.size == 0) continue;
      if (out.size() >= most) return at;
      if (rule && !is_of_rule(counter_of(entry), *rule)) continue;
      out.push_back({counter_of(entry), read(entry)});
    }
    return 0;
  }

  std::size_t size() const noexcept { return entries_.size() - free_.size(); }
  // Whether it has no room for a new one: 4 million entries.
  bool is_full() const noexcept { return size() >= kEntryMask - 2; }

  std::size_t bytes() const noexcept {
    std::size_t names = 0;
    for (const std::string* group : groups_) names += group->size() + 64;
    return records_.capacity() + entries_.capacity() * sizeof(Entry) +
           (slots_.capacity() + free_.capacity()) * sizeof(std::uint32_t) + names;
  }

 private:
  struct Entry {
    std::uint32_t at = 0;    // of its record: the packed override, then the rest of the key
    std::uint16_t size = 0;  // of the record; 0: the entry is free
    std::uint16_t key_size = 0;
    std::uint32_t group = 0;
    std::uint32_t hash = 0;
  };
  // A slot is the entry + 1, and above it bits of the hash, so that a look-up reads no entry of
  // another key.
  static constexpr unsigned kTagBits = 10;
  static constexpr std::uint32_t kEntryMask = ~std::uint32_t{0} >> kTagBits;
  static constexpr std::uint32_t kEmpty = 0, kRemoved = std::numeric_limits<std::uint32_t>::max();

  static std::uint32_t tag_of(std::uint32_t hash) noexcept { return hash & ~kEntryMask; }
  static std::size_t entry_of(std::uint32_t slot) noexcept { return (slot & kEntryMask) - 1; }

  std::optional<std::size_t> slot_of(std::string_view counter, std::uint32_t hash) const {
    if (slots_.empty()) return std::nullopt;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = hash & mask; slots_[slot] != kEmpty; slot = (slot + 1) & mask) {
      if (slots_[slot] == kRemoved || tag_of(slots_[slot]) != tag_of(hash)) continue;
      const Entry& entry = entries_[entry_of(slots_[slot])];
      if (entry.hash == hash && is(entry, counter)) return slot;
    }
    return std::nullopt;
  }

  bool is(const Entry& entry, std::string_view counter) const {
    const std::string& group = *groups_[entry.group];
    return counter.size() == group.size() + entry.key_size && counter.starts_with(group) &&
           counter.substr(group.size()) == key_of(entry);
  }

  std::string_view key_of(const Entry& entry) const {
    return {records_.data() + entry.at + entry.size - entry.key_size, entry.key_size};
  }

  std::string counter_of(const Entry& entry) const {
    return std::string(*groups_[entry.group]).append(key_of(entry));
  }

  Override read(const Entry& entry) const {
    return unpack({records_.data() + entry.at, entry.size});
  }

  std::uint32_t group_of(std::string_view prefix) {
    const auto known = group_numbers_.find(prefix);
    if (known != group_numbers_.end()) return known->second;
    const auto number = static_cast<std::uint32_t>(groups_.size());
    groups_.push_back(&group_numbers_.emplace(prefix, number).first->first);
    return number;
  }

  std::uint32_t new_entry() {
    if (!free_.empty()) {
      const std::uint32_t number = free_.back();
      free_.pop_back();
      return number;
    }
    grow(entries_, 1);
    entries_.emplace_back();
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }

  void write(Entry& entry, std::string_view key, const Override& given) {
    std::string packed;
    pack(given, packed);
    grow(records_, packed.size() + key.size());
    entry.at = static_cast<std::uint32_t>(records_.size());
    entry.size = static_cast<std::uint16_t>(packed.size() + key.size());
    entry.key_size = static_cast<std::uint16_t>(key.size());
    records_.insert(records_.end(), packed.begin(), packed.end());
    records_.insert(records_.end(), key.begin(), key.end());
  }

  void remove(std::size_t slot) {
    const auto number = static_cast<std::uint32_t>(entry_of(slots_[slot]));
    waste_ += entries_[number].size;
    entries_[number].size = 0;
    free_.push_back(number);
    slots_[slot] = kRemoved;
  }

  // Makes an index with room for the entries and one more, without the slots of removed ones.
  void grow_index() {
    const std::size_t needed = entries_.size() - free_.size() + 1;
    std::size_t size = 8;
    while (needed * 4 > size * 3) size *= 2;
    slots_.assign(size, kEmpty);
    used_slots_ = 0;
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].size > 0) take_slot(i);
    }
  }

  void take_slot(std::uint32_t number) {
    const std::uint32_t hash = entries_[number].hash;
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash & mask;
    while (slots_[slot] != kEmpty) slot = (slot + 1) & mask;
    slots_[slot] = tag_of(hash) | (number + 1);
    ++used_slots_;
  }

  void drop_waste() {
    constexpr std::size_t kLeast = 1024;
    if (waste_ < kLeast || waste_ < records_.size() / 4) return;
    std::vector<char> kept;
    kept.reserve(records_.size() - waste_);
    for (Entry& entry : entries_) {
      if (entry.size == 0) continue;
      const std::size_t at = kept.size();
      const auto begin = records_.begin() + entry.at;
      kept.insert(kept.end(), begin, begin + entry.size);
      entry.at = static_cast<std::uint32_t>(at);
    }
    records_ = std::move(kept);
    waste_ = 0;
  }

  std::vector<char> records_;
  std::size_t waste_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> slots_;  // the entry + 1
  std::size_t used_slots_ = 0;        // with those that are removed
  std::map<std::string, std::uint32_t, std::less<>> group_numbers_;
  std::vector<const std::string*> groups_;  // "domain|rule|limit"
  Instant soonest_ = Instant::max();        // no override ends earlier
};

}  // namespace sluice::rules

namespace sluice {
namespace {

constexpr std::string_view kFirstLine = "sluice overrides 1";

void write_all(detail::ReplacementFile& file, const Overrides& from) {
  constexpr std::size_t kPage = 10'000;
  const auto write = [&file](const std::string& text) {
    file.write(std::as_bytes(std::span(text)));
  };
  std::string text(kFirstLine);
  text += '\n';
  std::size_t count = 0;
  for (std::optional<std::uint64_t> at = 0; at;) {
    const Overrides::Page page = from.list(*at, kPage);
    for (const auto& [counter, given] : page.entries) {
      rules::append_text(given, text);
      text.append("\t").append(counter).append("\n");
    }
    count += page.entries.size();
    at = page.next;
    write(text);
    text.clear();
  }
  write("end " + std::to_string(count) + "\n");
}

// Reads the lines of a file up to its end.
Status read_all(const std::string& path, Overrides& into) {
  std::ifstream file(path);
  std::string line;
  std::size_t number = 0;
  const auto next = [&] {
    ++number;
    line.clear();
    return static_cast<bool>(std::getline(file, line));
  };
  const auto wrong = [&](std::string_view what) {
    return Unexpected{path + ":" + std::to_string(number) + ": " + std::string(what)};
  };
  const auto expected = [](std::string_view one) {
    return "; expected the line '" + std::string(one) + "'";
  };
  if (!next() || line != kFirstLine) {
    return wrong("is no file of overrides" + expected(kFirstLine));
  }
  std::size_t count = 0;
  for (; next(); ++count) {
    const std::size_t tab = line.find('\t');
    if (tab == line.npos) break;
    const auto given = rules::parse_override(std::string_view(line).substr(0, tab));
    if (!given) return wrong(given.error());
    const auto set = into.set(std::string_view(line).substr(tab + 1), *given);
    if (!set) return wrong(set.error());
  }
  const std::string last = "end " + std::to_string(count);
  if (line != last || next()) return wrong("the file is damaged" + expected(last));
  return {};
}

}  // namespace

Expected<bool> read_overrides(const std::string& path, Overrides& into) {
  if (const detail::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return Unexpected{"cannot read " + path + ": " + std::strerror(errno)};
  }
  Overrides next(into.most());
  if (auto read = read_all(path, next); !read) return Unexpected{read.error()};
  into.replace(std::move(next));
  return true;
}

Status write_overrides(const std::string& path, const Overrides& from) try {
  detail::ReplacementFile file(path);
  write_all(file, from);
  file.replace();
  return {};
} catch (const std::system_error& error) {
  return Unexpected{error.what()};
}

namespace {

constexpr std::size_t kShards = 256;

struct alignas(64) Shard {
  mutable std::mutex mutex;
  rules::OverrideTable table;
};

Instant system_now() noexcept { return SystemClock().now(); }

}  // namespace

class Overrides::Impl {
 public:
  explicit Impl(std::size_t bound) : most(bound) {}

  // Also returns the hash for the table.
  std::pair<Shard&, std::uint32_t> shard_of(std::string_view counter) {
    const std::size_t hash = std::hash<std::string_view>()(counter);
    return {shards[(hash >> 32) % kShards], static_cast<std::uint32_t>(hash)};
  }
  const std::size_t most;
  std::atomic<std::size_t> size{0};
  std::array<Shard, kShards> shards;
};

Overrides::Overrides(std::size_t most) : impl_(std::make_unique<Impl>(most)) {}
Overrides::~Overrides() = default;

Expected<bool> Overrides::set(std::string_view counter, const Override& given) {
  if (counter.size() > kLongestKey) {
    return Unexpected{"the key has " + std::to_string(counter.size()) +
                      " bytes; expected at most " + std::to_string(kLongestKey)};
  }
  const auto [shard, hash] = impl_->shard_of(counter);
  const std::lock_guard lock(shard.mutex);
  const bool is_full = impl_->size >= impl_->most || shard.table.is_full();
  if (is_full && !shard.table.find(counter, hash)) {
    return Unexpected{"there are " + std::to_string(impl_->most) +
                      " overrides, as many as there may be; expected fewer"};
  }
  const bool is_new = shard.table.set(counter, hash, given);
  if (is_new) ++impl_->size;
  return is_new;
}

bool Overrides::unset(std::string_view counter) {
  const auto [shard, hash] = impl_->shard_of(counter);
  const std::lock_guard lock(shard.mutex);
  const bool was_there = shard.table.unset(counter, hash);
  if (was_there) --impl_->size;
  return was_there;
}

void Overrides::clear() {
  for (Shard& shard : impl_->shards) {
    const std::lock_guard lock(shard.mutex);
    impl_->size -= shard.table.size();
    shard.table = {};
  }
}

void Overrides::replace(Overrides&& next) {
  for (std::size_t i = 0; i < kShards; ++i) {
    rules::OverrideTable old = std::exchange(next.impl_->shards[i].table, {});
    Shard& shard = impl_->shards[i];
    const std::lock_guard lock(shard.mutex);
    impl_->size += old.size() - shard.table.size();
    std::swap(shard.table, old);
  }
  next.impl_->size = 0;
}

std::optional<Override> Overrides::find(std::string_view counter,
                                        std::optional<Instant> now) const {
  if (impl_->size.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const auto [shard, hash] = impl_->shard_of(counter);
  std::optional<Override> found;
  {
    const std::lock_guard lock(shard.mutex);
    found = shard.table.find(counter, hash);
  }
  if (found && found->until && *found->until <= now.value_or(system_now())) found.reset();
  return found;
}

Overrides::Page Overrides::list(std::uint64_t from, std::size_t most,
                                const std::optional<std::string>& rule) const {
  Page page;
  auto at = static_cast<std::uint32_t>(from);
  for (std::uint64_t i = from >> 32; i < kShards; ++i) {
    const Shard& shard = impl_->shards[i];
    const std::lock_guard lock(shard.mutex);
    at = shard.table.list(at, most, rule, page.entries);
    if (at == 0 && page.entries.size() < most) continue;
    if (at == 0) ++i;
    if (i < kShards) page.next = i << 32 | at;
    break;
  }
  return page;
}

std::size_t Overrides::drop_ended(Instant now) {
  std::size_t dropped = 0;
  for (Shard& shard : impl_->shards) {
    const std::lock_guard lock(shard.mutex);
    dropped += shard.table.drop_ended(now, nullptr, 0);
  }
  impl_->size -= dropped;
  return dropped;
}

std::vector<Overrides::Page::Entry> Overrides::take_ended(Instant now, std::size_t most) {
  std::vector<Page::Entry> taken;
  for (Shard& shard : impl_->shards) {
    const std::lock_guard lock(shard.mutex);
    impl_->size -= shard.table.drop_ended(now, &taken, most);
  }
  return taken;
}

std::size_t Overrides::size() const noexcept { return impl_->size; }

std::size_t Overrides::most() const noexcept { return impl_->most; }

std::size_t Overrides::bytes() const {
  std::size_t bytes = sizeof(Impl);
  for (const Shard& shard : impl_->shards) {
    const std::lock_guard lock(shard.mutex);
    bytes += shard.table.bytes();
  }
  return bytes;
}

}  // namespace sluice
