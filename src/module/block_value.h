#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/block.h"
#include "module/request.h"

namespace sluice::redis_module {

// The block of one counter, as its value holds it.
struct BlockValue {
  core::BlockState state;  // as it counts now
  std::vector<core::Ticks> denials;
};

// Reads a value; empty if the key does not exist. Returns false if it is something else.
bool read_block_value(std::string_view bytes, core::Ticks now, BlockValue& block);

// Returns whether the block denies its counter's request.
bool denies(const AskedBlock& asked, const BlockValue& block, core::Ticks now) noexcept;

// Writes the value with a denial, or with a block by hand, to `out`. Returns the instant until
// which it is to be kept.
core::Ticks change_block_value(const AskedBlock& asked, const BlockValue& block, core::Ticks now,
                               std::string& out);

}  // namespace sluice::redis_module
