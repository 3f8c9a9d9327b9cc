// A program on Boost.Asio whose requests wait, from an installation.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>

#include "sluice/asio.h"
#include "sluice/sluice.h"

using namespace std::chrono_literals;
namespace asio = boost::asio;

constexpr auto kLimit = sluice::token_bucket(100).per(1s).burst(1);

asio::awaitable<void> work(sluice::AsyncLimiter& limiter, int& admitted) {
  const auto deadline = std::chrono::steady_clock::now() + 1min;
  const sluice::Decision decision =
      co_await limiter.async_acquire("key", kLimit, 1, deadline, asio::use_awaitable);
  admitted += decision.allowed() ? 1 : 0;
}

int main() {
  sluice::MemoryStore store;
  asio::io_context loop;
  sluice::AsyncLimiter limiter(loop, store);
  int admitted = 0;
  for (int i = 0; i < 3; ++i) asio::co_spawn(loop, work(limiter, admitted), asio::detached);
  loop.run();
  std::printf("admitted %d of 3\n", admitted);
  return admitted == 3 ? 0 : 1;
}
