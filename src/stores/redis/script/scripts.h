#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sluice/limit.h"
#include "stores/redis/client/command.h"

namespace sluice::redis {

// Algorithms that one function of a script decides. A script contains the functions that the
// families of its charges need. The table in scripts.cc has a row for each family.
struct Family {
  std::string_view name;
  std::string_view function;  // its name in Lua
};

std::span<const Family> families() noexcept;
const Family& family_of(const Limit& limit) noexcept;

// Appends the numbers of a charge on the limit, as the function of the limit's family reads them.
void append_numbers(const Limit& limit, std::uint64_t cost, std::string& out);

// A set of families: bit i for row i.
using FamilySet = std::uint8_t;
// In it each family has its number in requests for the module.
inline constexpr FamilySet kAllFamilies = 0xFF;
FamilySet bit_of(const Family& family) noexcept;
// The number of a family in a script for `set`, from 1.
int number_of(const Family& family, FamilySet set) noexcept;
// Whether counters of one of them can be reserved ahead.
bool can_reserve_ahead(FamilySet set) noexcept;

// Returns the text with the values of the constants of format.h, whose names, and nothing else in
// the .lua files, begin with a k and a capital letter. Throws std::out_of_range for another name.
std::string with_constants(std::string_view lua);

// Returns a part of the .lua files with the values of the constants. A line "part 'NAME'" begins
// one; a line "include 'NAME'" is replaced by a part before it.
const std::string& lua_part(std::string_view name);

// Appends the Lua that defines the functions of these families and, as the last statements, the
// list `decide` of the functions and the constant `reads_whole`.
void append_functions(FamilySet set, std::string& out);

// Return the script for a take of one charge at the server's time, and the script for any request.
// The first call composes a script, which is kept until the program ends. Thread-safe.
const Script& script_for_one(const Family& family);
const Script& script_for(FamilySet set);

}  // namespace sluice::redis
