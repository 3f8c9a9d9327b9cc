#pragma once

#include <string_view>

#include "limiter/text_buffer.h"
#include "sluice/decision.h"

namespace sluice {

// Returns whether the limit of `a` is reported before that of `b`: denials first, then the fewest
// units left.
constexpr bool tighter(const Decision& a, const Decision& b) noexcept {
  if (a.allowed() != b.allowed()) return !a.allowed();
  return a.remaining < b.remaining;
}

// Writes the name of a limit as the fields spell it, within quotes: `"NAME"`, or `"GROUP/NAME"`.
void put_policy_name(TextBuffer& out, std::string_view name, std::string_view group);

}  // namespace sluice
