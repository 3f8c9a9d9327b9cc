#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "sluice/limit.h"
#include "stores/memory/fingerprint.h"

namespace sluice::policy {

// The numbers of a limit in two words, for comparing limits of one algorithm.
struct PackedNumbers {
  static PackedNumbers of(const Limit& limit) noexcept;
  friend bool operator==(const PackedNumbers&, const PackedNumbers&) = default;

  std::uint64_t units;  // limit and capacity
  std::uint64_t rest;   // period, slices, options
};

// A denial of this cost and all larger ones, from `denied_at` for `retry_after`, under a limit of
// these numbers.
struct Denial {
  PackedNumbers numbers;
  Instant denied_at;
  Duration retry_after;
  Duration reset_after;
  std::uint32_t cost;
  std::uint32_t remaining;
};

// Denials by counter, in groups of 7 that fill eight cache lines. Reading takes no lock and writes
// nothing: the number of a group is odd while it is written, and larger afterwards. A reader that
// finds the same even number before and after has read one consistent state.
//
// Thread-safety: any member from any thread.
class DenyTable {
 public:
  explicit DenyTable(std::size_t max_keys);
  ~DenyTable();

  // The group where the denial of a counter is stored.
  struct Group;
  Group& group_of(const memory::Fingerprint& key) noexcept;

  static std::optional<Denial> find(const Group& group, const memory::Fingerprint& key) noexcept;

  // How often a counter of the group was forgotten. Read it before asking the store: put() drops a
  // denial that is older than the last forget().
  static std::uint64_t forgotten(const Group& group) noexcept;
  void put(Group& group, std::uint64_t forgotten_before, const memory::Fingerprint& key,
           const Denial& denial) noexcept;
  void forget(Group& group, const memory::Fingerprint& key) noexcept;

 private:
  static constexpr std::size_t kLocks = 64;

  std::mutex& lock_of(const Group& group) noexcept;

  std::uint64_t groups_count_;
  std::unique_ptr<Group[]> groups_;
  std::array<std::mutex, kLocks> locks_;  // for writers
};

}  // namespace sluice::policy
