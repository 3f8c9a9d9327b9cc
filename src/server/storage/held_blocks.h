#pragma once

#include <string>
#include <vector>

#include "sluice/clock.h"

namespace sluice::server {

// A counter of a rule whose key is blocked.
struct HeldBlock {
  std::string counter;  // the key in the store
  std::string tag;
  Instant until;
};

// The blocks that hold now, or some of them, in no order.
struct HeldBlocks {
  std::vector<HeldBlock> blocks;
  bool more = false;  // whether there may be others
};

}  // namespace sluice::server
