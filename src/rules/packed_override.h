#pragma once

#include <string>
#include <string_view>

#include "sluice/overrides.h"

namespace sluice::rules {

// Appends an override as a few bytes: a byte that says what follows, and numbers in groups of seven
// bits.
void pack(const Override& given, std::string& out);

// Reads what pack() has written at the begin of `bytes`, and removes it.
Override unpack(std::string_view& bytes);

}  // namespace sluice::rules
