#include "tests/support/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <stdexcept>

namespace {
// operator new has no object to keep them in. NOLINTBEGIN(*-avoid-non-const-global-variables)
std::atomic<bool> g_counting{false};
std::atomic<std::size_t> g_allocations{0};
std::atomic<std::size_t> g_kept{0};  // bytes
std::atomic<std::size_t> g_fails_from{std::numeric_limits<std::size_t>::max()};
// NOLINTEND(*-avoid-non-const-global-variables)

void* allocate(std::size_t size) noexcept {
  if (g_counting) ++g_allocations;
  if (size >= g_fails_from) return nullptr;
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (g_counting) g_kept += ::malloc_usable_size(memory);
  return memory;
}

void release(void* memory) noexcept {
  if (g_counting) g_kept -= ::malloc_usable_size(memory);
  std::free(memory);
}
}  // namespace

// Not inline: a compiler that sees only one of the two operators warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}

namespace sluice::testing {
namespace {

std::size_t count(const std::function<void()>& run) {
  g_allocations = g_kept = 0;
  g_counting = true;
  run();
  g_counting = false;
  return g_allocations;
}

}  // namespace

std::size_t count_allocations(const std::function<void()>& run) {
  if (count([] { ::operator delete(::operator new(1)); }) != 1) {
    throw std::logic_error("the program has another operator new");
  }
  return count(run);
}

std::size_t count_kept_bytes(const std::function<void()>& run) {
  count_allocations(run);
  return g_kept;
}

void without_memory(std::size_t least_bytes, const std::function<void()>& run) {
  const std::size_t before = g_fails_from.exchange(least_bytes);
  run();
  g_fails_from = before;
}

}  // namespace sluice::testing
