// Checks that the client allocates nothing for a command once its buffers have grown.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "tests/redis/client_probe.h"
#include "tests/redis/redis_server.h"

// Counts the allocations of this program while a test measures them.
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

void* operator new(std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace sluice_redis {
namespace {

// Submits itself repeatedly, this many times in total.
class Repeated final : public Command {
 public:
  Repeated(sluice::redis::Client& client, std::size_t& left, std::size_t& answered)
      : client_(client), left_(left), answered_(answered) {
    append("GET");
    append("a key");
  }
  void done(const Answer& answer) noexcept override {
    if (answer.failure == Failure::kNone) ++answered_;
    if (left_ == 0) return;
    --left_;
    client_.submit(*this);
  }

 private:
  sluice::redis::Client& client_;
  std::size_t& left_;
  std::size_t& answered_;
};

TEST(RedisClientMemory, IsNotAllocatedForACommandOnceBuffersHaveGrown) {
  constexpr std::size_t kDepth = 64;
  constexpr std::size_t kWarmUp = 20'000;
  constexpr std::size_t kCounted = 100'000;
  RedisServer server;
  sluice::RedisOptions options;
  options.url = server.url();
  options.deadline = std::chrono::seconds{5};
  Probe probe(options);
  ASSERT_TRUE(probe.run_until_ready());

  std::size_t left = kWarmUp + kCounted - kDepth;
  std::size_t answered = 0;
  std::vector<Repeated> commands(kDepth, Repeated(*probe.client, left, answered));
  for (Repeated& one : commands) probe.client->submit(one);
  while (answered < kWarmUp) probe.loop.run_one();
  g_counting = true;
  while (left > 0) probe.loop.run_one();
  g_counting = false;
  EXPECT_EQ(g_allocations, 0u);
  ASSERT_TRUE(probe.run_until([&] { return answered == kWarmUp + kCounted; }));
  EXPECT_EQ(probe.client->stats().requests, kWarmUp + kCounted);
}

}  // namespace
}  // namespace sluice_redis
