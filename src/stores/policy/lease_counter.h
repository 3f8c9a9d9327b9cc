#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "core/limit.h"
#include "sluice/store.h"
#include "stores/memory/fingerprint.h"

namespace sluice::policy {

// The name of a counter that is held, and the charge by which its units are given back. Does not
// move, because the charge refers to the texts.
struct LeaseName {
  explicit LeaseName(const Charge& of)
      : key(of.key),
        tag(of.tag),
        charge{.key = key,
               .limit = of.limit,
               .tag = tag,
               .keyspace = of.keyspace,
               .limit_id = of.limit_id} {}
  LeaseName(const LeaseName&) = delete;
  LeaseName& operator=(const LeaseName&) = delete;

  const std::string key;
  const std::string tag;
  Charge charge;
};

// What this process knows of one leased counter: the units that it holds, and the rate of requests.
//
// Thread-safety: none; the caller has the lock of its group.
struct LeaseCounter {
  memory::Fingerprint key;    // `low` is 0: unused
  std::uint32_t numbers = 0;  // those of its limit
  std::uint16_t lease_ms = 0;
  bool is_asking = false;        // a request asks the store for a batch
  bool is_unable = false;        // the store cannot take batches of it
  bool is_queued = false;        // its end is in the queue
  std::uint32_t units = 0;       // in hand, usable before `end`
  std::uint32_t batch = 0;       // the units of its lease at first
  std::uint32_t remaining = 0;   // in the store, as it said last
  std::uint32_t generation = 0;  // of its lease
  std::uint32_t resets = 0;      // units that were asked for before the last one are not used
  Instant end{};                 // of its lease
  Instant window_end{};          // from then on its units are not those of the store's window
  Instant asked_at{};            // when the store was asked for the lease
  Duration reset_after{0};       // as the store said
  Duration delay{-1};            // likewise; below 0: none

  // Units that were admitted since `since`, and within the lease before that.
  Instant since{};
  std::uint64_t used = 0;
  std::uint64_t used_before = 0;

  std::unique_ptr<LeaseName> name;  // while a lease has not ended

  Duration lease() const noexcept { return std::chrono::milliseconds{lease_ms}; }
  bool holds(Instant now) const noexcept { return name != nullptr && now < end; }

  void begin(const memory::Fingerprint& of, const Limit& limit, Instant now) noexcept {
    *this = LeaseCounter{};
    key = of;
    since = now;
    adopt(limit);
  }
  void adopt(const Limit& limit) noexcept {
    numbers = core::LimitAccess::tag(limit);
    lease_ms = static_cast<std::uint16_t>(limit.lease().count());
  }
  bool has_numbers_of(const Limit& limit) const noexcept {
    return numbers == core::LimitAccess::tag(limit) && lease_ms == limit.lease().count();
  }

  // Counts units that were admitted.
  void use(std::uint64_t admitted, Instant now) noexcept {
    advance(now);
    used += admitted;
  }
  // Returns the units that a lease from now needs, if requests go on as within the last one.
  std::uint64_t expected(Instant now) noexcept {
    advance(now);
    const auto rest = static_cast<std::uint64_t>((since + lease() - now).count());
    return used + used_before * rest / static_cast<std::uint64_t>(lease().count());
  }

 private:
  void advance(Instant now) noexcept {
    const Duration passed = now - since;
    if (passed < lease()) return void(since = std::min(since, now));
    // At the same rate: what one lease of the time that has passed used.
    const auto ticks = static_cast<std::uint64_t>(passed.count());
    used_before = used * static_cast<std::uint64_t>(lease().count()) / ticks;
    used = 0;
    since = now;
  }
};

}  // namespace sluice::policy
