// A process of a fleet that shares one leased limit in Redis, for test_leases.py.
//
//   lease_client URL NODES LIMIT LEASE_MS RATE SECONDS
//
// Requests one unit RATE times in a second. Writes a line for each admitted request: when it was
// sent and answered, in microseconds of the steady clock, and its reason; at the end `local` and
// the requests that leases admitted.

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "sluice/limiter.h"
#include "sluice/redis_chain.h"

namespace {

using Clock = std::chrono::steady_clock;

long long micros(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
}

void request(sluice::RedisChain& chain, const sluice::Limit& limit, long rate, long seconds) {
  sluice::Limiter limiter(chain);
  const auto start = Clock::now();
  for (long i = 0; i < rate * seconds; ++i) {
    std::this_thread::sleep_until(start + std::chrono::microseconds{1'000'000 * i / rate});
    const auto sent = Clock::now();
    const sluice::Decision said = limiter.try_acquire("shared", limit);
    if (said) {
      std::cout << micros(sent) << ' ' << micros(Clock::now()) << ' ' << to_string(said.reason)
                << std::endl;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return EXIT_FAILURE;
  const auto number = [&](int i) { return std::strtol(argv[i], nullptr, 10); };
  const auto nodes = static_cast<std::uint32_t>(number(2));
  auto chain = sluice::RedisChain::open(
      {.redis = {.url = argv[1], .deadline = std::chrono::seconds{5}}, .leases = {.nodes = nodes}});
  if (!chain || !(*chain)->wait_until_ready(std::chrono::seconds{10})) return EXIT_FAILURE;
  const auto units = static_cast<std::uint64_t>(number(3));
  const std::chrono::milliseconds lease{number(4)};
  request(**chain, sluice::sliding_window_log(units).per(std::chrono::seconds{1}).leased(lease),
          number(5), number(6));
  std::cout << "local " << (*chain)->status().leases.local << std::endl;
  return EXIT_SUCCESS;
}
