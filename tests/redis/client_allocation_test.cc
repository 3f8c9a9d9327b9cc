// Checks that the client allocates nothing for a command once its buffers have grown.

#include <gtest/gtest.h>

#include <vector>

#include "tests/redis/client_probe.h"
#include "tests/redis/redis_server.h"
#include "tests/support/allocations.h"

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

TEST(RedisClientMemory, IsNotAllocatedForACommandAfterBuffersHaveGrown) {
  constexpr std::size_t kDepth = 64;
  constexpr std::size_t kWarmUp = 20'000;
  constexpr std::size_t kCounted = 100'000;
  RedisServer server;
  sluice::RedisOptions options;
  options.url = server.url();
  options.deadline = std::chrono::seconds{5};
  Probe probe(options);
  probe.run_until_ready();

  std::size_t left = kWarmUp + kCounted - kDepth;
  std::size_t answered = 0;
  std::vector<Repeated> commands(kDepth, Repeated(*probe.client, left, answered));
  for (Repeated& one : commands) probe.client->submit(one);
  while (answered < kWarmUp) probe.loop.run_one();
  const std::size_t allocations = sluice::testing::count_allocations([&] {
    while (left > 0) probe.loop.run_one();
  });
  EXPECT_EQ(allocations, 0u);
  probe.run_until("all are answered", [&] { return answered == kWarmUp + kCounted; });
  EXPECT_EQ(probe.client->stats().requests, kWarmUp + kCounted);
}

}  // namespace
}  // namespace sluice_redis
