#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/expected.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

// The commands that decide by a GCRA limit in their arguments, as redis-cell's CL.THROTTLE.
namespace sluice {

// The bounds of a number, and its name in errors.
struct NumberArgument {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};
// Errors: the name of the argument, the text, and what is expected.
Expected<std::int64_t> parse_number(std::string_view text, const NumberArgument& argument);

// How a command writes its arguments and its reply.
enum class ThrottleForm : std::uint8_t {
  kCell,  // CL.THROTTLE of redis-cell: seconds and a quantity; begins with limited
  // THROTTLE of throttlecrab: `max_burst` is the limit, and a quantity is not negative; begins with
  // allowed; reset, then retry, both cut to whole seconds.
  kCrab,
  kGcra,  // GCRA of Redis: seconds with a fraction, and `TOKENS count`
};

struct ThrottleArguments {
  std::uint64_t burst = 0;  // units after the first
  std::uint64_t count = 0;  // units per period
  Duration period{0};
  std::int64_t quantity = 1;  // 0: a peek; below 0: a refund

  // Errors: a bucket that refills too slowly.
  Expected<Limit> limit() const;
  Verb verb() const noexcept;
  // No limit contains more than kMaxUnits.
  std::uint64_t cost() const noexcept;
};

// Reads the words after the key. Errors name the argument.
Expected<ThrottleArguments> parse_throttle(ThrottleForm form,
                                           std::span<const std::string_view> words);

// Returns the five integers of the reply to `asked`, whose limit is `limit`. Seconds are rounded
// up, so that a limited client never reads 0; except those of kCrab, which are as throttlecrab's.
std::array<std::int64_t, 5> throttle_reply(ThrottleForm form, const ThrottleArguments& asked,
                                           const Limit& limit, const Decision& decision) noexcept;

}  // namespace sluice
