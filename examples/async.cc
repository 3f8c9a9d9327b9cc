// Requests that wait in a program on Boost.Asio: coroutines, deadlines, cancellation, threads.
#include <sluice/asio.h>
#include <sluice/sluice.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <future>

using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::use_awaitable;

// [start wait]
asio::awaitable<void> send_all(sluice::AsyncLimiter& limiter) {
  constexpr auto kMails = sluice::token_bucket(100).per(1s).burst(2);
  for (int i = 1; i <= 4; ++i) {
    const sluice::Decision decision =
        co_await limiter.async_acquire("mails", kMails, 1, 1min, use_awaitable);
    if (!decision) co_return;
    std::printf("mail %d\n", i);  // 1 and 2 at once, the others 10 ms apart
  }
}
// [end wait]

constexpr auto kExports = sluice::token_bucket(1).per(1h);

asio::awaitable<void> export_now(sluice::AsyncLimiter& limiter) {
  for (int i = 1; i <= 2; ++i) {
    const sluice::Decision decision =
        co_await limiter.async_acquire("exports", kExports, 1, 5s, use_awaitable);
    std::puts(decision ? "exported" : "no export within 5 s");  // the second line at once
  }
}

// [start cancel]
using namespace asio::experimental::awaitable_operators;

asio::awaitable<void> export_unless_gone(sluice::AsyncLimiter& limiter,
                                         asio::steady_timer& client_is_gone) {
  const auto first = co_await (limiter.async_acquire("exports", kExports, 1, 2h, use_awaitable) ||
                               client_is_gone.async_wait(use_awaitable));
  std::puts(first.index() == 0 ? "exported" : "the client is gone");
}
// [end cancel]

void report(sluice::Store& store) {
  asio::thread_pool threads(2);
  sluice::AsyncLimiter limiter(threads, store);
  constexpr auto kReports = sluice::fixed_window(1).per(50ms);

  std::future<sluice::Decision> reports[3];
  for (auto& one : reports) {
    one = limiter.async_acquire("reports", kReports, 1, 1min, asio::use_future);
  }
  for (auto& one : reports) std::puts(one.get() ? "reported" : "no report");
  threads.join();
}

int main() {
  sluice::MemoryStore store;
  asio::io_context loop;
  sluice::AsyncLimiter limiter(loop, store);
  asio::co_spawn(loop, send_all(limiter), asio::detached);
  loop.run();

  loop.restart();
  asio::co_spawn(loop, export_now(limiter), asio::detached);
  loop.run();

  asio::steady_timer client_is_gone(loop, 20ms);
  loop.restart();
  asio::co_spawn(loop, export_unless_gone(limiter, client_is_gone), asio::detached);
  loop.run();
  const auto state = sluice::Limiter(store).peek("exports", kExports);
  std::puts(state.retry_after <= 1h ? "the second export is given back" : "it is still counted");

  report(store);
}
