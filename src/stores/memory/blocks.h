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
// counter. Only denials and blocks by hand make entries. Bounded in bytes: beyond them it drops an
// entry of the limit whose entries take the most, so that keys that one limit denies free the
// keys of another only while those take more; blocks by hand only for other blocks by hand. Of a
// few entries of that limit it drops a key that is not blocked before one that is. Each new entry
// also drops a few forgotten entries.
//
// Not thread-safe: the shard's lock protects it.
class Blocks {
 public:
  // Throws std::bad_alloc.
  explicit Blocks(std::size_t max_bytes);

  bool contains(const Fingerprint& key) const noexcept {
    return size_ > 0 && part_of(key).contains(key);
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
    std::uint32_t limit = 0;  // Pool::limit
    bool by_hand = false;
    std::string_view key = {}, tag = {};
    Keyspace keyspace = Keyspace::kCallers;
    bool has_name = false;  // it was blocked, so key and tag are known
  };
  // The entries are in parts, which take about kPartBytes at most and which no entry leaves.
  std::size_t parts() const noexcept { return parts_.size(); }
  // Calls visit(key, Known) for each entry of a part.
  template <typename Visit>
  void for_each_in(std::size_t part, Visit visit) const {
    for (const auto& [key, entry] : parts_[part]) {
      Known known{entry.state(), pools_[entry.pool].limit, pools_[entry.pool].by_hand};
      if (const Name* const name = entry.name.get()) {
        known.key = name->key;
        known.tag = name->tag;
        known.keyspace = name->keyspace;
        known.has_name = true;
      }
      visit(key, known);
    }
  }
  // Adds an absent entry. Returns false if it is there. Throws std::bad_alloc.
  bool restore(const Fingerprint& key, const Known& known, core::Ticks now);

  // Appends the keys of a part that are blocked at `now` until there are `most`.
  void list(std::size_t part, core::Ticks now, std::size_t most,
            std::vector<BlockedKey>& out) const;

  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint64_t evictions() const noexcept { return evictions_; }  // of entries with an effect
  std::uint64_t freed() const noexcept { return freed_; }          // those that were blocked

  // About what an entry takes without its denials.
  static constexpr std::size_t kEntryBytes = 160;
  static constexpr std::size_t kPartBytes = std::size_t{256} << 10;
  // Of key and tag together; longer ones are not kept.
  static constexpr std::size_t kLongestName = 2048;

 private:
  struct Name {
    std::string key;
    std::string tag;
    Keyspace keyspace;

    std::size_t bytes() const noexcept { return sizeof(Name) + key.capacity() + tag.capacity(); }
  };
  static constexpr std::uint32_t kNoPool = ~std::uint32_t{0};
  struct Entry {
    core::Ticks last = 0, end = 0, grown = 0, forgotten = 0;
    std::vector<core::Ticks> denials;
    std::unique_ptr<const Name> name;  // of a key that was blocked
    std::uint32_t pool = kNoPool;      // in pools_
    std::uint32_t at = 0;              // in Pool::entries

    core::BlockState state() const noexcept { return {last, end, grown, forgotten, denials}; }
    std::size_t bytes() const noexcept {
      return kEntryBytes + denials.capacity() * sizeof(core::Ticks) + (name ? name->bytes() : 0);
    }
  };
  struct Hash {
    std::size_t operator()(const Fingerprint& key) const noexcept { return key.low; }
  };
  using Entries = std::unordered_map<Fingerprint, Entry, Hash>;
  using Node = Entries::value_type;
  // The entries of one limit: those that are blocked by hand, or the others.
  struct Pool {
    std::uint32_t limit = 0;  // names the limit, as far as 32 bits can
    bool by_hand = false;
    std::size_t bytes = 0;
    std::size_t hand = 0;  // the entry with which the next search begins
    std::vector<Node*> entries;
  };

  Entries& part_of(const Fingerprint& key) noexcept {
    return parts_[(key.high >> 32) & (parts_.size() - 1)];
  }
  const Entries& part_of(const Fingerprint& key) const noexcept {
    return parts_[(key.high >> 32) & (parts_.size() - 1)];
  }
  Node* node_of(const Fingerprint& key, std::uint32_t pool, core::Ticks now);
  void write(Node& node, const Charge& charge, const core::NextBlock& next, std::uint32_t pool);
  static void keep_name(Entry& entry, const Charge& charge);
  std::uint32_t pool_of(std::uint32_t limit, bool by_hand);
  void enter(Node& node, std::uint32_t pool);
  void leave(Entry& entry) noexcept;
  void count(const Entry& entry) noexcept;
  void uncount(const Entry& entry) noexcept;
  bool make_room(bool by_hand, core::Ticks now) noexcept;
  void drop_forgotten(core::Ticks now) noexcept;
  void drop(Node& node) noexcept;

  std::vector<Entries> parts_;
  std::vector<Pool> pools_;  // one without entries is free
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
  std::size_t swept_pool_ = 0, swept_at_ = 0;  // where the next search for forgotten entries begins
  std::uint64_t evictions_ = 0;
  std::uint64_t freed_ = 0;
  const std::size_t max_bytes_;
};

}  // namespace sluice::memory
