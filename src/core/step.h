#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sluice/limit.h"
#include "sluice/verb.h"

namespace sluice::core {

// Instants and waits inside the core: microseconds, as in Duration, below 2^53.
using Ticks = std::int64_t;

// Products of units (below 2^33) and ticks (below 2^53).
__extension__ using Wide = unsigned __int128;

// b > 0: a limit of nothing is never asked how long.
template <typename T>
constexpr T ceil_div(T a, T b) noexcept {
  return static_cast<T>(a / b + (a % b != 0));  // NOLINT(clang-analyzer-core.DivideZero)
}

// ⌈(a·m + add) / d⌉ for a result that fits in 64 bits; the 128-bit division only where it must be.
constexpr std::uint64_t ceil_mul_div(std::uint64_t a, std::uint64_t m, std::uint64_t add,
                                     std::uint64_t d) noexcept {
  std::uint64_t product = 0;
  if (!__builtin_mul_overflow(a, m, &product) && !__builtin_add_overflow(product, add, &product)) {
    return ceil_div(product, d);
  }
  return static_cast<std::uint64_t>(ceil_div(Wide{a} * m + add, Wide{d}));
}

// ⌊a·m / d⌋ for a result that fits in 64 bits.
constexpr std::uint64_t floor_mul_div(std::uint64_t a, std::uint64_t m, std::uint64_t d) noexcept {
  return static_cast<std::uint64_t>(Wide{a} * m / d);
}

// A counter never goes back: an instant before its last change is read as that one.
constexpr Ticks effective(Ticks now, Ticks last) noexcept { return now < last ? last : now; }

// The state of a limit in numbers.
struct Numbers {
  std::uint64_t remaining = 0;  // whole units that would pass now
  Ticks reset_after = 0;        // until the counter is untouched; 0: it is
  std::uint64_t spent = 0;      // of a budget, in its window
  std::uint64_t held = 0;       // of a budget, by its open holds
};

// What a limit answers to a verb.
struct Answer {
  static constexpr Ticks kNoDelay = -1;

  bool admitted = false;
  bool never = false;  // the cost exceeds what the limit can ever hold
  bool over = false;   // admitted beyond the limit
  bool gone = false;   // the permit or the hold has ended
  // Of a budget: the id was decided with another amount; too many holds are open; the id was
  // decided before in the same way; its hold had ended before it was settled.
  bool conflict = false;
  bool too_many = false;
  bool repeated = false;
  bool late = false;
  std::uint64_t remaining = 0;
  std::uint64_t taken = 0;  // kTakeAtMost only
  Ticks wait = 0;           // if it is neither admitted nor never: until the same cost is
  Ticks reset_after = 0;
  Ticks delay = kNoDelay;  // how long an admitted request has to wait
  Ticks ends_after = 0;    // until the hold of the id ends
  std::uint64_t spent = 0;
  std::uint64_t held = 0;

  constexpr Answer() = default;
  // A quote, which says whether a cost is admitted, with its numbers. It is copied field by field:
  // so a compiler keeps it in registers.
  constexpr Answer(const Answer& quote, const Numbers& numbers) noexcept
      : admitted(quote.admitted),
        never(quote.never),
        over(quote.over),
        gone(quote.gone),
        conflict(quote.conflict),
        too_many(quote.too_many),
        repeated(quote.repeated),
        late(quote.late),
        remaining(numbers.remaining),
        taken(quote.taken),
        wait(quote.wait),
        reset_after(numbers.reset_after),
        delay(quote.delay),
        ends_after(quote.ends_after),
        spent(numbers.spent),
        held(numbers.held) {}

  friend constexpr bool operator==(const Answer&, const Answer&) = default;
};

// Quotes, without numbers.
constexpr Answer never() noexcept {
  Answer quote;
  quote.never = true;
  return quote;
}
constexpr Answer admitted() noexcept {
  Answer quote;
  quote.admitted = true;
  return quote;
}
constexpr Answer denied_for(std::uint64_t wait) noexcept {
  Answer quote;
  quote.wait = static_cast<Ticks>(wait);
  return quote;
}

// When a counter is forgotten: at the first multiple of 2^20 µs from which on it is untouched under
// the numbers of its last write. Stores keep that multiple in 32 bits. A counter whose multiple
// does not fit is never forgotten.
class Forgotten {
 public:
  static constexpr int kShift = 20;
  static constexpr std::uint32_t kNever = 0xFFFFFFFE;

  // A counter that was never seen has been forgotten since the epoch.
  constexpr Forgotten() = default;
  constexpr explicit Forgotten(std::uint32_t multiple) noexcept : multiple_(multiple) {}

  static constexpr Forgotten after(Ticks untouched_from) noexcept {
    constexpr std::uint64_t kRoundUp = (std::uint64_t{1} << kShift) - 1;
    const auto multiple = (static_cast<std::uint64_t>(untouched_from) + kRoundUp) >> kShift;
    return Forgotten(multiple < kNever ? static_cast<std::uint32_t>(multiple) : kNever);
  }

  constexpr std::uint32_t multiple() const noexcept { return multiple_; }
  constexpr bool is_past(Ticks now) const noexcept {
    return multiple_ < kNever && multiple_ <= static_cast<std::uint64_t>(now) >> kShift;
  }
  // Returns the first instant at which it is past; if there is none, the last one of all.
  constexpr Ticks from() const noexcept {
    if (multiple_ >= kNever) return std::numeric_limits<Ticks>::max();
    return Ticks{multiple_} << kShift;
  }

  // Cuts the waits of an unchanged counter at the instant at which it is forgotten. They are longer
  // only if the limit's numbers have changed since the last write.
  constexpr void end(Ticks now, Answer& answer) const noexcept {
    const Ticks left = from() - now;
    answer.wait = std::min(answer.wait, left);
    answer.reset_after = std::min(answer.reset_after, left);
  }

 private:
  std::uint32_t multiple_ = 0;
};

// The state of a counter as a store keeps it. `State` is the state itself, or a view of it in the
// store's memory. A default one is a counter that was never seen.
template <typename State>
struct Kept {
  State state;
  Forgotten forgotten;
};
template <typename State>
Kept(State, Forgotten) -> Kept<State>;

enum class Change : std::uint8_t {
  kNone,
  kWrite,  // store `next`, forgotten at forgotten()
  kErase,  // forget the counter
};

// The result of a verb on one counter. `Next` is the next state, or how it is made from the view.
template <typename Next>
struct Step {
  Answer answer;
  Change change;
  Ticks at;   // the instant of the decision: `now`, or the last change if that is later
  Next next;  // with the cost if it was admitted

  constexpr Forgotten forgotten() const noexcept {
    if constexpr (requires { next.forgotten; }) {
      return next.forgotten;
    } else {
      return Forgotten::after(at + answer.reset_after);
    }
  }
};

// The shape of every algorithm: a pure function of an action, a limit, a state, an instant and a
// cost. A store makes it atomic. If a request has several counters, the store applies the changes
// of all or of none.
template <typename Function, typename State, typename Next>
concept StepFunction = std::is_nothrow_invocable_r_v<Step<Next>, Function, Action, const Limit&,
                                                     const Kept<State>&, Ticks, std::uint64_t>;

// Returns what a limit answers to a counter that is untouched.
constexpr Answer untouched(const Limit& limit) noexcept {
  return {admitted(), {.remaining = limit.capacity(), .reset_after = 0}};
}

// Returns the units that a take of at most `cost` asks for: one if all are used, to be denied.
constexpr std::uint64_t units_at_most(const Limit& limit, std::uint64_t used,
                                      std::uint64_t cost) noexcept {
  const std::uint64_t capacity = limit.capacity();
  return std::min(cost, used < capacity ? capacity - used : 1);
}

// Whether a counter with this many units is beyond its limit. A limit of 0 counts none.
constexpr bool exceeds(const Limit& limit, std::uint64_t units) noexcept {
  return limit.capacity() > 0 && units > limit.capacity();
}

// Whether a refund can give anything back.
constexpr bool can_give_back(const Limit& limit, const Numbers& numbers,
                             std::uint64_t cost) noexcept {
  return cost > 0 && limit.capacity() > 0 && numbers.reset_after > 0;
}

}  // namespace sluice::core
