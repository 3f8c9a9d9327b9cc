#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/rules/redis_override_commands.h"
#include "sluice/expected.h"
#include "sluice/overrides.h"
#include "stores/redis/client/client.h"

namespace sluice::server {

// Changes the override of a counter in Redis, or removes it if the text is empty. Returns the
// number of the change, or 0 if there was nothing to remove. Waits, on a fiber of the client's
// loop; null is an error. Errors: why it was not changed, or may not be.
Expected<std::int64_t> change_override(redis::Client* client, const OverrideKeys& keys,
                                       std::string_view counter, std::string_view text);

// Sets at most kOverrideGroup overrides in script calls that are sent together. Returns the number
// of the change of each. After an error, some of them may be set.
inline constexpr std::size_t kOverrideGroup = 1600;
Expected<std::vector<std::uint64_t>> change_overrides(
    redis::Client* client, const OverrideKeys& keys,
    std::span<const Overrides::Page::Entry> entries);

}  // namespace sluice::server
