#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/limit.h"
#include "sluice/leased_store.h"
#include "sluice/store.h"
#include "stores/memory/fingerprint.h"
#include "stores/memory/lock.h"
#include "stores/policy/spread_count.h"

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
               .rule = {of.rule.keyspace, of.rule.limit_id}} {}
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

namespace sluice {

// The leased counters, in groups of 8. It asks no store: LeaseRequest does, and passes the
// answers on.
//
// Thread-safety: any member from any thread. No lock is held between calls.
class Leases::Impl {
 public:
  Impl(const LeaseOptions& options, const Clock& clock);

  // One charge of a request.
  struct Part {
    memory::Fingerprint key;
    std::uint32_t generation = 0;  // of the lease from which it has units
    std::uint32_t resets = 0;      // of the counter when a batch was asked for
    std::uint32_t in_hand = 0;     // units from the lease
    bool is_leased = false;        // its counter can have a lease
    bool is_tracked = false;       // take() has found its counter
    bool is_done = false;          // the request has units of its lease
    bool was_asked = false;        // the request has asked the store for a batch
  };

  Instant now() const noexcept { return clock_.now(); }
  // Returns whether a take of the charge may use a lease.
  static bool may_lease(const Charge& charge) noexcept {
    return charge.limit.lease().count() > 0 && charge.cost > 0 &&
           charge.cost <= charge.limit.capacity();
  }
  Part part_of(const Charge& charge) const noexcept {
    return {.key = fingerprint_(charge), .is_leased = may_lease(charge)};
  }

  // Takes the cost from the lease and writes the answer, or returns false.
  bool take(const Charge& charge, Instant now, Part& part, Decision& answer) noexcept;
  // Returns what take() took: another limit has denied the request.
  void put_back(const Charge& charge, Instant now, Part& part) noexcept;

  // Returns the units to ask for; 0: the request asks for exactly its cost. If it is not 0,
  // end_batch() must follow.
  std::uint32_t begin_batch(const Charge& charge, Instant now, Part& part) noexcept;
  // Keeps the units of a batch that the store was asked for at `asked_at`, except for the cost, if
  // that many were taken. Returns whether the cost was.
  bool end_batch(const Charge& charge, Instant asked_at, Part& part, Decision& said) noexcept;
  // Learns from the store's answer to a request of exactly the cost, which was admitted or not.
  void learn(const Charge& charge, Instant asked_at, const Part& part, const Decision& said,
             bool was_admitted) noexcept;
  // The counter is reset or blocked: its units are not used any more.
  void drop(const Charge& charge) noexcept;

  // Moves the units of the leases that have ended to `out`, or ends all leases: the cost of each
  // charge is to be given back. Throws std::bad_alloc; then they stay taken.
  void collect(std::vector<std::unique_ptr<policy::LeaseName>>& out, bool all = false);
  // Blocks until collect() has something to do. Returns false after stop() of the same flag.
  bool await_end(const bool& stops) noexcept;
  void stop(bool& stops) noexcept;
  // When collect() has something to do; absent: nothing is held.
  std::optional<Instant> next_end() const noexcept;
  void note_given_back(std::uint64_t units) noexcept { given_back_ += units; }
  void note_local() noexcept { local_.add_one(); }

  LeaseStats stats() const noexcept;

 private:
  using Counter = policy::LeaseCounter;
  static constexpr std::size_t kGroup = 8;
  static constexpr std::size_t kLocks = 64;
  static constexpr std::int64_t kNever = INT64_MAX;
  // A counter is busy from this many requests in a lease on.
  static constexpr std::uint64_t kBusy = 4;

  // The names in a group, in memory that the cache can hold: most requests with another key read
  // nothing else. A counter is tracked from its second request on, so that keys that are used once
  // replace no other counter.
  struct alignas(64) Names {
    std::array<std::uint32_t, kGroup> keys{};  // 32 bits of each counter's key
    std::array<std::uint32_t, kGroup> seen{};  // those of keys that were used once
  };
  struct Group {
    std::array<Counter, kGroup> counters;
    std::size_t oldest = 0;  // the counter that was made first
  };
  struct End {
    Instant at;
    std::uint32_t group;
    std::uint32_t index;
    friend bool operator>(const End& a, const End& b) noexcept { return a.at > b.at; }
  };

  std::size_t index_of(const memory::Fingerprint& key) const noexcept {
    return static_cast<std::size_t>((key.high >> 32) * names_.size() >> 32);
  }
  memory::Lock& lock_of(std::size_t group) noexcept { return locks_[group % kLocks].lock; }
  static std::uint32_t name_of(const memory::Fingerprint& key) noexcept {
    return static_cast<std::uint32_t>(key.low);
  }
  Counter* find(std::size_t group, const memory::Fingerprint& key) noexcept;
  Counter* find_or_make(std::size_t group, const memory::Fingerprint& key, const Limit& limit,
                        Instant now) noexcept;
  std::uint32_t most_of(const Limit& limit) const noexcept;
  void change_numbers(Counter& counter, const Charge& charge, Instant now) noexcept;
  void return_early(Counter& counter, const Limit& limit, Instant now) noexcept;
  void hold(std::size_t group, Counter& counter, const Charge& charge, Instant asked_at,
            std::uint64_t units, const Decision& said) noexcept;
  void end_lease(Counter& counter) noexcept;
  std::unique_ptr<policy::LeaseName> rest_of(Counter& counter, Instant now) noexcept;
  void queue(std::size_t group, Counter& counter);
  void update_next_end() noexcept;
  static Decision local_answer(const Counter& counter, const Charge& charge, Instant now,
                               std::uint32_t before) noexcept;

  const std::uint64_t nodes_;
  const double share_;
  const Clock& clock_;
  const memory::FingerprintMaker fingerprint_;
  std::vector<Names> names_;  // by group
  std::vector<Group> groups_;
  struct alignas(64) Locked {
    memory::Lock lock;
  };
  std::array<Locked, kLocks> locks_;

  // Taken after a lock of the groups, if both are.
  std::mutex ends_mutex_;
  std::vector<End> ends_;                                  // a heap, the earliest first
  std::vector<std::unique_ptr<policy::LeaseName>> rests_;  // of leases that ended early
  std::condition_variable ends_earlier_;                   // next_end() is earlier than before
  std::atomic<std::int64_t> next_end_{kNever};

  policy::SpreadCount local_;
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> given_back_{0};
  std::atomic<std::size_t> held_{0};
};

}  // namespace sluice
