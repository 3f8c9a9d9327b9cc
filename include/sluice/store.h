#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

namespace sluice {

// One (key, limit, cost) of a request.
//
// A plain value that borrows the bytes of key and tag: any bytes, NUL included, of any length, also
// none. A counter is named by its tag, its key and the limit's algorithm.
struct Charge {
  std::string_view key;
  Limit limit;
  std::uint64_t cost = 1;  // units; 0 looks without taking, and is never denied
  // Where a store spreads counters over several servers (a Redis Cluster), those with one tag lie
  // together, so that a request on them is one atomic step. Empty: each lies by its own key.
  std::string_view tag = {};
};

// What answers where a store cannot decide.
enum class FailurePolicy : std::uint8_t {
  kAllow,  // let pass
  kDeny,   // deny
  kLocal,  // limit in this process's memory, each limit at its share of 1/nodes
};

// The most charges that one request may carry.
inline constexpr std::size_t kMaxCharges = 64;

// Keeps counters, and makes one request on them atomic.
//
// Thread-safety: apply() may be called from any thread. Ownership: borrows its arguments for the
// call. Cost: see the store. A store does not throw from apply().
class Store {
 public:
  virtual ~Store() = default;

  // Decides a request of one or more charges at `now` (absent: at the store's own time), all or
  // nothing, writes the answer to charge i into `each[i]`, and returns the answer to the request:
  // denied if any limit denies, `retry_after` and `delay` the longest, `kNever` if any says never,
  // and the numbers of the tightest limit (least remaining; of the denying ones, if any).
  //
  // `each` has one element for every charge. Two charges on one counter count together. Answers
  // `kInvalid`, and changes nothing, where there are no charges or over kMaxCharges, `now` lies
  // outside kFirstInstant..kLastInstant, or two charges name one counter with different numbers.
  virtual Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                         std::span<Decision> each) noexcept = 0;

  // As apply() of one charge, which is what most requests are: a store may have a shorter way.
  virtual Decision apply_one(Verb verb, const Charge& charge, std::optional<Instant> now) noexcept;
};

}  // namespace sluice
