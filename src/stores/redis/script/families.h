#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sluice/limit.h"

namespace sluice::redis {

// Algorithms that one function of a script decides. A script contains the functions that the
// families of its charges need. The table in families.cc has a row for each family.
struct Family {
  std::string_view name;
  std::string_view function;  // its name in Lua
  std::string_view text;      // defines the function; empty if `shared` does
  std::uint8_t shared;        // bit i: the function needs the shared text i
  bool can_reserve_ahead = false;
  // The short ways of a script with no other family: before its functions, and without one.
  std::string_view short_single = {};
  std::string_view short_request = {};

  // Returns whether the family decides an algorithm with this refill, with or without a calendar.
  bool (*decides)(const AlgorithmInfo& algorithm, Refill refill, bool by_calendar);
  // Appends the record of the function's argument (format.h).
  void (*append_argument)(const Limit& limit, std::uint64_t cost, std::string& out);
};

std::span<const Family> families() noexcept;
const Family& family_of(const Limit& limit) noexcept;

// A set of families: bit i for row i.
using FamilySet = std::uint8_t;
// In it each family has its number in requests for the module.
inline constexpr FamilySet kAllFamilies = 0xFF;
FamilySet bit_of(const Family& family) noexcept;
// The number of a family in a script for `set`, from 1.
int number_of(const Family& family, FamilySet set) noexcept;
// Whether counters of one of them can be reserved ahead.
bool can_reserve_ahead(FamilySet set) noexcept;

// Appends the Lua that defines the functions of these families and, as the last statements, the
// list `decide` of the functions and the constant `reads_whole`.
void append_functions(FamilySet set, std::string& out);

}  // namespace sluice::redis
