// Coroutines that wait for a limit.
#include <sluice/asio.h>
#include <sluice/sluice.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;
namespace asio = boost::asio;

// [start async]
asio::awaitable<void> job(sluice::AsyncLimiter& limiter, int number) {
  constexpr auto kJobs = sluice::token_bucket(10'000).per(1s).burst(1);
  const sluice::Decision decision =
      co_await limiter.async_acquire("jobs", kJobs, 1, 1min, asio::use_awaitable);
  if (decision && number % 250 == 0) std::printf("job %d\n", number);
}

int main() {
  sluice::MemoryStore store;
  asio::io_context loop;
  sluice::AsyncLimiter limiter(loop, store);
  for (int i = 1; i <= 1000; ++i) asio::co_spawn(loop, job(limiter, i), asio::detached);
  loop.run();  // one thread, 1000 jobs that wait
}
// [end async]
