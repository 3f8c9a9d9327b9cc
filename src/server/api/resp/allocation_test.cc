#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "server/api/resp/test_handler.h"
#include "server/protocol/resp/request_reader.h"

// Counts the allocations of this program while a test measures.
namespace {
// operator new has no object to keep them in. NOLINTBEGIN(*-avoid-non-const-global-variables)
std::atomic<bool> g_counting{false};
std::atomic<std::size_t> g_allocations{0};
// NOLINTEND(*-avoid-non-const-global-variables)

void* counted(std::size_t size) {
  if (g_counting) ++g_allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
}  // namespace

// Not inline: a compiler that sees only one of the two operators warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size); }
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace sluice::server::resp {
namespace {

std::string framed(const std::vector<std::string_view>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + std::string(word) + "\r\n";
  }
  return out;
}

TEST(CommandHandler, AllocatesNothingOnceItsBuffersHaveGrown) {
  TestCommands handler;
  handler.client.protocol = 3;
  const std::string key = "a key that is long enough for the heap, with some more";
  const std::vector<std::string> frames{
      framed({"CL.THROTTLE", key, "15", "30", "60"}),
      framed({"RL.LIMIT", key, "token_bucket", "10", "60s", "BURST", "20"}),
      framed({"RL.CHECK", "*", "path", "/login", "ip", key}),
      framed({"RL.CHECK", "header", "header.X-User", key}),
      framed({"PING"}),
      framed({"HELLO", "3"})};
  RequestReader reader({});
  const auto ask = [&] {
    handler.handler.output.clear();
    for (const std::string& one : frames) {
      ASSERT_EQ(reader.read(one, true), RequestReader::Progress::kReady);
      reader.arguments(one, handler.handler.request);
      handler.handler.answer(handler.client);
      reader.next();
    }
  };
  for (int i = 0; i < 30; ++i) ask();  // then the limit is exceeded
  g_allocations = 0;
  g_counting = true;
  for (int i = 0; i < 100; ++i) ask();
  g_counting = false;
  EXPECT_EQ(g_allocations, 0u);
  g_counting = true;
  const std::string allocates(1000, 'x');
  g_counting = false;
  EXPECT_EQ(g_allocations, 1u) << "the count itself does not work";
}

}  // namespace
}  // namespace sluice::server::resp
