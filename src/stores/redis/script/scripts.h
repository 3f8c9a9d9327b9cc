#pragma once

#include <span>

#include "stores/redis/client/command.h"
#include "stores/redis/script/families.h"

namespace sluice::redis {

// Return the script for a take of one charge at the server's time, and the script for any request.
// The first call composes a script, which is kept until the program ends. Thread-safe.
const Script& script_for_one(const Family& family);
const Script& script_for(FamilySet set);

// Returns all scripts, for loading them in advance.
std::span<const Script> scripts();

}  // namespace sluice::redis
