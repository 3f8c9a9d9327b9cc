#include "stores/policy/deny_table.h"

#include <algorithm>

namespace sluice::policy {
namespace {

using memory::Fingerprint;

constexpr std::size_t kWays = 7;
constexpr std::size_t kNowhere = kWays;
constexpr std::uint64_t kMostGroups = std::uint64_t{1} << 32;
// How often a group is read again if it is being written; then its denials are ignored.
constexpr int kTries = 4;

// Acquire and release, so that the number of a group is read and written around its words.
class Word {
 public:
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_acquire); }
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct Slot {
  Word high;
  Word units;
  Word rest;
  Word cost_and_remaining;
  Word denied_at;
  Word retry_after;
  Word reset_after;

  void set(const Fingerprint& key, const PackedNumbers& numbers, const Denial& denial) noexcept {
    high.set(key.high);
    units.set(numbers.units);
    rest.set(numbers.rest);
    cost_and_remaining.set(std::uint64_t{denial.cost} << 32 | denial.remaining);
    denied_at.set(static_cast<std::uint64_t>(denial.denied_at.time_since_epoch().count()));
    retry_after.set(static_cast<std::uint64_t>(denial.retry_after.count()));
    reset_after.set(static_cast<std::uint64_t>(denial.reset_after.count()));
  }
  Denial denial() const noexcept {
    const auto ticks = [](const Word& word) {
      return Duration{static_cast<Duration::rep>(word.get())};
    };
    const std::uint64_t both = cost_and_remaining.get();
    return {.denied_at = Instant{ticks(denied_at)},
            .retry_after = ticks(retry_after),
            .reset_after = ticks(reset_after),
            .cost = static_cast<std::uint32_t>(both >> 32),
            .remaining = static_cast<std::uint32_t>(both)};
  }
  std::uint64_t ends() const noexcept { return denied_at.get() + retry_after.get(); }
};

// Returns the period, or the number of the calendar with bit 60 set.
std::uint64_t period_of(const Limit& limit) noexcept {
  if (limit.calendar() == nullptr) return static_cast<std::uint64_t>(limit.period().count());
  return std::uint64_t{1} << 60 | limit.calendar()->number();
}

}  // namespace

struct alignas(64) DenyTable::Group {
  std::atomic<std::uint64_t> number{0};
  std::array<Word, kWays> low;  // half of each slot's key; 0: free
  std::array<Slot, kWays> slots;
  Word forgotten;

  std::size_t place_of(const Fingerprint& key) const noexcept {
    for (std::size_t i = 0; i < kWays; ++i) {
      if (low[i].get() == key.low && slots[i].high.get() == key.high) return i;
    }
    return kNowhere;
  }
  // Returns a free slot, or the one that ends first.
  std::size_t place_for_another() const noexcept {
    std::size_t best = 0;
    for (std::size_t i = 0; i < kWays; ++i) {
      if (low[i].get() == 0) return i;
      if (slots[i].ends() < slots[best].ends()) best = i;
    }
    return best;
  }
  // Under the lock.
  template <typename Change>
  void write(Change change) noexcept {
    const std::uint64_t before = number.load(std::memory_order_relaxed);
    number.store(before + 1, std::memory_order_relaxed);
    change();
    number.store(before + 2, std::memory_order_release);
  }
};

PackedNumbers::PackedNumbers(const Limit& limit) noexcept
    : units(std::uint64_t{limit.limit()} << 32 | limit.capacity()),
      rest(period_of(limit) | std::uint64_t{limit.slices()} << 45 |
           static_cast<std::uint64_t>(limit.align()) << 56 |
           static_cast<std::uint64_t>(limit.weighting()) << 57 |
           static_cast<std::uint64_t>(limit.mode()) << 58 |
           static_cast<std::uint64_t>(limit.refill()) << 59) {
  static_assert(kMaxPeriod.count() < std::int64_t{1} << 45);
  static_assert(kMaxSlices < 1u << 11);
}

DenyTable::DenyTable(std::size_t max_keys)
    : groups_count_(std::clamp<std::uint64_t>((max_keys + kWays - 1) / kWays, 1, kMostGroups)),
      groups_(std::make_unique<Group[]>(groups_count_)) {
  static_assert(sizeof(Group) == 512);
}

DenyTable::~DenyTable() = default;

DenyTable::Group& DenyTable::group_of(const Fingerprint& key) noexcept {
  return groups_[((key.high >> 32) * groups_count_) >> 32];
}

std::mutex& DenyTable::lock_of(const Group& group) noexcept {
  return locks_[static_cast<std::size_t>(&group - groups_.get()) % kLocks];
}

DenyTable::Found DenyTable::find(const Group& group, const Fingerprint& key,
                                 const PackedNumbers& numbers, Denial& denial) noexcept {
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = group.number.load(std::memory_order_acquire);
    const std::size_t place = group.place_of(key);
    if (place == kNowhere) return Found::kNothing;
    const Slot& slot = group.slots[place];
    denial = slot.denial();
    const bool same = slot.units.get() == numbers.units && slot.rest.get() == numbers.rest;
    if (before % 2 == 0 && group.number.load(std::memory_order_relaxed) == before) {
      return same ? Found::kDenial : Found::kOther;
    }
  }
  return Found::kNothing;
}

std::uint64_t DenyTable::forgotten(const Group& group) noexcept { return group.forgotten.get(); }

void DenyTable::put(Group& group, std::uint64_t forgotten_before, const Fingerprint& key,
                    const PackedNumbers& numbers, const Denial& denial) noexcept {
  const std::lock_guard lock(lock_of(group));
  if (group.forgotten.get() != forgotten_before) return;
  std::size_t place = group.place_of(key);
  if (place == kNowhere) place = group.place_for_another();
  group.write([&] {
    group.low[place].set(key.low);
    group.slots[place].set(key, numbers, denial);
  });
}

void DenyTable::forget(Group& group, const Fingerprint& key) noexcept {
  const std::lock_guard lock(lock_of(group));
  group.forgotten.set(group.forgotten.get() + 1);
  const std::size_t place = group.place_of(key);
  if (place != kNowhere) group.write([&] { group.low[place].set(0); });
}

}  // namespace sluice::policy
