#pragma once

#include <cstddef>
#include <functional>

namespace sluice::testing {

// Returns how often the program calls operator new while `run` runs, in any thread. A program that
// links sluice_test_allocations has its own operator new for this.
std::size_t count_allocations(const std::function<void()>& run);

// Returns by how many bytes the memory of operator new grows while `run` runs, in any thread, with
// what malloc rounds up.
std::size_t count_kept_bytes(const std::function<void()>& run);

// Runs `run` while operator new fails for this many bytes and more, in any thread.
void without_memory(std::size_t least_bytes, const std::function<void()>& run);

}  // namespace sluice::testing
