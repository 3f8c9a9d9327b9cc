#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/block.h"
#include "sluice/memory_store.h"
#include "stores/memory/fingerprint.h"

namespace sluice::memory {

// The blocks of a shard's counters, and the denials that count for them, by the name of the
// counter. Only denials make entries. Bounded in bytes: beyond them it drops one of a few entries,
// a key that is not blocked before one that is. Each new entry also drops a few forgotten ones.
//
// Not thread-safe: the shard's lock protects it.
class Blocks {
 public:
  explicit Blocks(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  bool contains(const Fingerprint& key) const noexcept {
    return !entries_.empty() && entries_.contains(key);
  }
  core::BlockAnswer look(const Fingerprint& key, core::Ticks now) const noexcept;
  // Both need a charge with a block.
  // Counts a denial of a key that is not blocked. Without memory it is not counted.
  core::BlockAnswer deny(const Fingerprint& key, const Charge& charge, core::Ticks now) noexcept;
  // Blocks a key for a time. Returns false if memory is exhausted.
  bool block(const Fingerprint& key, const Charge& charge, core::Ticks time,
             core::Ticks now) noexcept;
  void erase(const Fingerprint& key) noexcept;

  // An entry as a snapshot contains it. Borrows its texts and denials.
  struct Known {
    core::BlockState state;
    std::string_view key, tag;
    Keyspace keyspace = Keyspace::kCallers;
    bool has_name = false;  // it was blocked, so key and tag are known
  };
  // Calls visit(key, Known) for each entry.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [key, entry] : entries_) {
      const Name* const name = entry.name.get();
      visit(key, name ? Known{entry.state(), name->key, name->tag, name->keyspace, true}
                      : Known{entry.state(), {}, {}});
    }
  }
  // Adds an absent entry. Returns false if it is there. Throws std::bad_alloc.
  bool restore(const Fingerprint& key, const Known& known, core::Ticks now);

  // Appends the keys that are blocked at `now` until there are `most`.
  void list(core::Ticks now, std::size_t most, std::vector<BlockedKey>& out) const;

  std::size_t size() const noexcept { return entries_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint64_t evictions() const noexcept { return evictions_; }  // of entries with an effect

  // About what an entry takes in the map without its denials.
  static constexpr std::size_t kEntryBytes = 144;
  // Of key and tag together; longer ones are not kept.
  static constexpr std::size_t kLongestName = 2048;

 private:
  struct Name {
    std::string key;
    std::string tag;
    Keyspace keyspace;

    std::size_t bytes() const noexcept { return sizeof(Name) + key.capacity() + tag.capacity(); }
  };
  struct Entry {
    core::Ticks last = 0, end = 0, grown = 0, forgotten = 0;
    std::vector<core::Ticks> denials;
    std::unique_ptr<const Name> name;  // of a key that was blocked

    core::BlockState state() const noexcept { return {last, end, grown, forgotten, denials}; }
    std::size_t bytes() const noexcept {
      return kEntryBytes + denials.capacity() * sizeof(core::Ticks) + (name ? name->bytes() : 0);
    }
  };
  struct Hash {
    std::size_t operator()(const Fingerprint& key) const noexcept { return key.low; }
  };
  using Entries = std::unordered_map<Fingerprint, Entry, Hash>;

  Entry& entry_of(const Fingerprint& key, core::Ticks now);
  void write(Entry& entry, const Charge& charge, const core::NextBlock& next);
  static void keep_name(Entry& entry, const Charge& charge);
  void make_room(core::Ticks now) noexcept;
  void drop_forgotten(core::Ticks now) noexcept;
  void drop(Entries::const_iterator at) noexcept;

  Entries entries_;
  std::size_t bytes_ = 0;
  std::size_t hand_ = 0;  // the bucket with which the next search begins
  std::uint64_t evictions_ = 0;
  const std::size_t max_bytes_;
};

}  // namespace sluice::memory
