#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "tests/property/arbitrary.h"
#include "tests/property/history.h"

// One counter in its own store, and simple histories for it.
namespace sluice_property {

// A take: the time since the previous one, and its cost.
struct Op {
  std::int64_t gap = 0;
  std::uint64_t cost = 0;
};

inline void showValue(const Op& op, std::ostream& out) {
  out << "+" << op.gap << " us: " << op.cost;
}

// Takes of which a limit admits about half.
inline rc::Gen<Op> any_op(const sluice_oracle::Spec& spec) {
  return rc::gen::map(any_seed(), [=](std::uint64_t seed) {
    Dice dice(seed);
    const std::int64_t per = spec.per_us;
    const auto limit = static_cast<std::int64_t>(std::max<std::uint64_t>(spec.limit, 1));
    Op op;
    op.gap =
        dice.any_of<std::int64_t>({0, 1, dice.between(0, per / 10), dice.between(0, per / limit),
                                   per / limit, dice.between(0, per), per});
    const std::uint64_t capacity = sluice_oracle::capacity(spec);
    op.cost = dice.any_of<std::uint64_t>(
        {1, 1, 2, 1 + dice.below(capacity / 2 + 1), 1 + dice.below(capacity + 1)});
    return op;
  });
}

inline rc::Gen<std::vector<Op>> any_ops(const sluice_oracle::Spec& spec) {
  return rc::gen::container<std::vector<Op>>(any_op(spec));
}

class Probe {
 public:
  explicit Probe(const sluice_oracle::Spec& spec) : limit_(limit_of(spec)) {}

  sluice::Decision take(std::int64_t at, std::uint64_t cost) {
    return limiter_.try_acquire(kKey, limit_, cost, instant(at));
  }
  sluice::Decision peek(std::int64_t at, std::uint64_t cost) {
    return limiter_.peek(kKey, limit_, cost, instant(at));
  }
  sluice::Decision refund(std::int64_t at, std::uint64_t cost) {
    return limiter_.refund(kKey, limit_, cost, instant(at));
  }
  const sluice::Limit& limit() const { return limit_; }

 private:
  static constexpr std::string_view kKey = "key";
  static sluice::Instant instant(std::int64_t at) { return sluice::Instant{sluice::Duration{at}}; }

  sluice::MemoryStore store_{{.max_keys = 64, .shards = 1}};
  sluice::Limiter limiter_{store_};
  sluice::Limit limit_;
};

// The admitted takes and their instants.
struct Taken {
  std::int64_t at = 0;
  std::uint64_t cost = 0;
};

inline constexpr std::int64_t kStart = 1700000000123456;

inline std::vector<Taken> admitted(Probe& probe, const std::vector<Op>& ops) {
  std::vector<Taken> taken;
  std::int64_t at = kStart;
  for (const Op& op : ops) {
    at += op.gap;
    if (probe.take(at, op.cost)) taken.push_back({at, op.cost});
  }
  return taken;
}

}  // namespace sluice_property
