#pragma once

#include <cstddef>

#include "server/storage/held_blocks.h"
#include "sluice/expected.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/target.h"

namespace sluice::server {

// Finds at most `most` blocks that hold in Redis, with SCAN on every master. It stops after 5 s. It
// may miss blocks that start or end meanwhile. Errors: what Redis answered.
//
// Call it on a fiber of the client's loop.
Expected<HeldBlocks> find_blocks(redis::Client& client, const redis::Target& target,
                                 std::size_t most);

}  // namespace sluice::server
