#pragma once

#include <cstdint>

namespace sluice::detail {

// Returns a number that differs between a process and those that were forked off after it had asked
// for the first time.
std::uint64_t forks() noexcept;

}  // namespace sluice::detail
