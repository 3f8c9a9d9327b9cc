#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>

#include "core/fixed_size.h"

namespace sluice::core {

// For tests: what one step of a counter answered.
struct Answer {
  bool admitted = false;
  bool never = false;
  Ticks wait = 0;
  std::uint32_t remaining = 0;
  Ticks reset_after = 0;

  friend constexpr bool operator==(const Answer&, const Answer&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Answer& a) {
  out << (a.admitted ? "ok" : a.never ? "never" : "wait " + std::to_string(a.wait));
  return out << ", remaining " << a.remaining << ", reset after " << a.reset_after;
}

constexpr Answer ok(std::uint32_t remaining, Ticks reset_after) {
  return {.admitted = true, .remaining = remaining, .reset_after = reset_after};
}
constexpr Answer wait(Ticks wait, std::uint32_t remaining, Ticks reset_after) {
  return {.wait = wait, .remaining = remaining, .reset_after = reset_after};
}
constexpr Answer refused(std::uint32_t remaining, Ticks reset_after) {
  return {.never = true, .remaining = remaining, .reset_after = reset_after};
}

// For tests: one counter of fixed size, stepped as a store steps it.
class FixedSize {
 public:
  constexpr explicit FixedSize(const Limit& limit) : limit_(limit) {}

  constexpr Answer take(Ticks now, std::uint64_t cost = 1) {
    const State at = advance(limit_, state_, now);
    const Quote quoted = quote(limit_, at, cost);
    if (quoted.admitted && cost > 0) state_ = core::take(at, cost);
    return answer(quoted, quoted.admitted ? core::take(at, cost) : at);
  }
  constexpr Answer peek(Ticks now, std::uint64_t cost = 0) const {
    const State at = advance(limit_, state_, now);
    const Quote quoted = quote(limit_, at, cost);
    return answer(quoted, quoted.admitted ? core::take(at, cost) : at);
  }
  constexpr Answer refund(Ticks now, std::uint64_t cost) {
    State at = advance(limit_, state_, now);
    if (cost > 0 && holds_anything(limit_, at)) state_ = at = give_back(limit_, at, cost);
    return answer(core::admitted(), at);
  }
  // The limit's numbers change; what was consumed stays.
  constexpr void become(const Limit& limit) { limit_ = limit; }

  constexpr const State& state() const { return state_; }

 private:
  constexpr Answer answer(const Quote& quoted, const State& at) const {
    const Numbers numbers = describe(limit_, at);
    return {quoted.admitted, quoted.never, quoted.wait, numbers.remaining, numbers.reset_after};
  }

  Limit limit_;
  State state_;
};

// For tests: asserts that what is denied with a wait is denied one tick before it, and admitted at
// it.
inline void expect_exact_wait(const FixedSize& counter, Ticks now, std::uint64_t cost) {
  const Answer denied = counter.peek(now, cost);
  ASSERT_FALSE(denied.admitted);
  ASSERT_FALSE(denied.never);
  ASSERT_GT(denied.wait, 0);
  EXPECT_FALSE(counter.peek(now + denied.wait - 1, cost).admitted);
  EXPECT_TRUE(counter.peek(now + denied.wait, cost).admitted);
}

}  // namespace sluice::core
