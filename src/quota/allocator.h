#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "sluice/clock.h"

namespace sluice::quota {

// Parts of a limit are shares of it: this is the whole limit.
inline constexpr std::uint64_t kWhole = std::uint64_t{1} << 40;

// What a subscriber asks for. A plain value.
struct Claim {
  std::uint64_t asked = 0;  // its demand as a share; may be more than the whole, up to 2^50
  std::uint64_t weight = 1;
  std::uint64_t at_least = kWhole / 100;  // what it gets even if it asks for less

  friend bool operator==(const Claim&, const Claim&) = default;
};

// Divides `total` by weighted max-min fairness: `parts` has one element for each claim. Each gets
// its `at_least`, or less if these are more than the total; above that nobody gets more than it
// asks for, and what is left goes to those who ask for more, in proportion to their weights.
// Rounded down, so that the sum is at most the total. Cost: O(n log n).
void divide(std::span<const Claim> claims, std::uint64_t total, std::span<std::uint64_t> parts);

// The parts of one limit, and what may still be used of parts from before. A state machine without
// I/O: what the subscribers hold never adds up to more than the total, unless the total falls.
//
// Thread-safety: one thread. Ownership: none. Cost: 128 bytes a subscriber.
class Allocator {
 public:
  using Id = std::uint64_t;

  // `latency`: how long a message may take. An assignment is active this long after it was sent,
  // and an older one is used no longer.
  explicit Allocator(Duration latency) : latency_(latency) {}

  // A subscriber asks for a part, the first time to be added. What it asks for rises at once, and
  // falls to no less than half of its part.
  void ask(Id id, const Claim& claim);
  // As above, in a report, which confirms the part that was sent at least the latency ago.
  void report(Id id, const Claim& claim, Instant now);
  // Plans the parts of all. Returns whose part changes. Of what others ask for, all who ask for
  // less than their `at_least` get together at most that share of the total more; and there are no
  // least parts if they do not fit. `unclaimed` would be added to the total if they asked for more.
  std::vector<Id> plan(std::uint64_t total, Instant now, std::uint64_t unclaimed = 0);
  // The part to send now. As assigned() if it does not change.
  std::uint64_t planned(Id id) const { return of(id).planned; }
  // It was sent, and may be used for `ttl`. A raise may be left out.
  void sent(Id id, std::uint64_t part, Duration ttl, Instant now);
  // It was removed before, perhaps by another id, and may use what that one held, until it is sent
  // a part: nobody is lowered for it.
  void come_back(Id id);
  // Whether something was held by those who were removed, at the latest plan.
  bool has_gone() const noexcept { return has_gone_; }
  // What it holds is free when it has expired, unless it reports again.
  void remove(Id id);

  // About what it would get if it asked for all, by the latest plan; at most 2^50. That if there
  // was none.
  std::uint64_t available(Id id) const;
  std::uint64_t asked(Id id) const { return of(id).claim.asked; }  // smoothed
  std::uint64_t assigned(Id id) const { return of(id).assigned; }  // that was sent last
  std::uint64_t held(Id id) const { return of(id).held(); }  // the largest part that it may use
  Instant expires(Id id) const;                              // the part that was sent last
  // What all may use, also those that were removed.
  std::uint64_t held(Instant now);
  // Until when any of it may be used.
  Instant last_use() const;
  // Whether nobody may use anything.
  bool empty(Instant now);

 private:
  // A part that was sent; `at` is when.
  struct Sent {
    std::uint64_t part;
    Instant at, until;
  };
  struct Subscriber {
    Claim claim = {};
    std::uint64_t assigned = 0;
    std::uint64_t planned = 0;
    Sent last = {};                         // ended: there is none
    std::forward_list<Sent> replaced = {};  // that may be used still, the newest first
    bool is_gone = false;
    bool is_back = false;

    std::uint64_t held() const noexcept;
  };

  const Subscriber& of(Id id) const;  // an empty one if there is none
  void expire(Instant now);

  const Duration latency_;
  std::map<Id, Subscriber> all_;
  // Of the latest plan, with what is unclaimed: what nobody asked for, and the least part for each
  // weight of those who asked for more than they got. kNoLevel: all got what they asked for.
  static constexpr std::uint64_t kNoLevel = std::uint64_t{1} << 50;
  bool has_gone_ = false;
  bool fits_ = true;  // the least parts did, in the latest plan
  std::uint64_t spare_ = kNoLevel;
  std::uint64_t level_ = kNoLevel;
};

}  // namespace sluice::quota
