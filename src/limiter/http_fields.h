#pragma once

#include <string_view>

#include "limiter/text_buffer.h"
#include "sluice/decision.h"
#include "sluice/limit.h"

namespace sluice {

// Returns whether the limit of `a` is reported before that of `b`: denials first, then the fewest
// units left.
constexpr bool tighter(const Decision& a, const Decision& b) noexcept {
  if (a.allowed() != b.allowed()) return !a.allowed();
  return a.remaining < b.remaining;
}

// Whether there is a time at which units come back. A block without an end has none, even if its
// counter is full, and neither has a limit of 0, nor a budget that does not renew, even an
// untouched one.
bool has_reset(const Limit& limit, const Decision& decision) noexcept;

// Writes the name of a limit as the fields spell it, within quotes: `"NAME"`, or `"GROUP/NAME"`.
void put_policy_name(TextBuffer& out, std::string_view name, std::string_view group);

}  // namespace sluice
