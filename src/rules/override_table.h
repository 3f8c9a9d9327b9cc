#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/overrides.h"

namespace sluice::rules {

// A hash table of overrides: packed records in one text, which is written again when a quarter of
// it is waste. The names of domain, rule and limit, with which many keys begin, are stored once.
//
// Thread-safety: none. Cost: about 30 bytes an override, and its key.
class OverrideTable {
 public:
  std::optional<Override> find(std::string_view counter, std::uint32_t hash) const;
  // Whether it is new. `counter` has at most Overrides::kLongestKey bytes.
  bool set(std::string_view counter, std::uint32_t hash, const Override& given);
  bool unset(std::string_view counter, std::uint32_t hash);
  // Drops those that have ended; costs nothing if none can have.
  std::size_t drop_ended(Instant now);
  // Appends the overrides from entry `at` on until the page has `most`. Returns the next entry; 0
  // at the end.
  std::uint32_t list(std::uint32_t at, std::size_t most, std::string_view prefix,
                     std::vector<Overrides::Page::Entry>& out) const;
  std::size_t size() const noexcept { return entries_.size() - free_.size(); }
  // Whether it has no room for a new one: 4 million entries.
  bool is_full() const noexcept { return size() >= kEntryMask - 2; }
  std::size_t bytes() const noexcept;

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

  std::optional<std::size_t> slot_of(std::string_view counter, std::uint32_t hash) const;
  bool is(const Entry& entry, std::string_view counter) const;
  std::string_view key_of(const Entry& entry) const;
  Override read(const Entry& entry) const;
  std::uint32_t group_of(std::string_view prefix);
  std::uint32_t new_entry();
  void write(Entry& entry, std::string_view key, const Override& given);
  void remove(std::size_t slot);
  void grow_index();
  void drop_waste();

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
