// AsyncLimiter (sluice/asio.h): an uncontended request compared with a take, and many waiters of
// one key.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/threads.h"
#include "sluice/asio.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"

namespace sluice::bench {
namespace {

using Error = boost::system::error_code;
using Steady = std::chrono::steady_clock;

constexpr const char* kUncontendedLegend =
    "AsyncLimiter::async_acquire(key, limit, 1, deadline) against Limiter::try_acquire(key,\n"
    "limit), on one key of a memory store with its own time. Every request is admitted at once.\n"
    "64 chains of callbacks, each of which starts the next one, on an io_context without locks.\n"
    "`post`: what Boost.Asio alone takes for such a callback. Processor time; the promise is the\n"
    "median of the differences, in ns.";

constexpr const char* kWaitersLegend =
    "10,000 calls of async_acquire for one unit of one key at the same moment, on a memory store\n"
    "and an io_context of one thread. `late`: from the instant at which the units are due, or the\n"
    "last call if that is later, to the call of the handler; medians of five runs, and the\n"
    "lowest..highest 99th percentile. `questions`: calls of the store for each grant. `bytes`:\n"
    "what the heap grew by for each waiter, with a handler of 8 bytes. Wall time, so other\n"
    "programs count.";

// A store that counts its questions.
class Counted final : public Store {
 public:
  explicit Counted(Store& store) : store_(store) {}
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++questions;
    return store_.apply(action, charges, now, each);
  }
  std::size_t questions = 0;

 private:
  Store& store_;
};

// Starts one callback after the other.
struct Chain {
  void acquire() {
    --left;
    limiter.async_acquire("user:0000000042", limit, 1, deadline,
                          [this](Error, const Decision& decision) {
                            benchmark::DoNotOptimize(&decision);
                            if (left > 0) acquire();
                          });
  }
  void post() {
    --left;
    boost::asio::post(loop, [this] {
      if (left > 0) post();
    });
  }
  template <typename Start>
  void run(std::size_t count, const Start& start) {
    left = static_cast<std::int64_t>(count);
    for (int i = 0; i < 64; ++i) start();
    loop.restart();
    loop.run();
  }

  boost::asio::io_context& loop;
  AsyncLimiter& limiter;
  const Limit& limit;
  const Steady::time_point deadline = Steady::now() + std::chrono::hours{1};
  std::int64_t left = 0;
};

void uncontended(const Options& options, const std::string& name, const Limit& limit) {
  MemoryStore store;
  Limiter plain(store);
  boost::asio::io_context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
  AsyncLimiter limiter(loop, store);
  Chain chain{loop, limiter, limit};
  const auto take = [&](std::size_t, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      benchmark::DoNotOptimize(plain.try_acquire("user:0000000042", limit));
    }
  };
  const auto acquire = [&](std::size_t, std::size_t count) {
    chain.run(count, [&] { chain.acquire(); });
  };
  const auto post = [&](std::size_t, std::size_t count) {
    chain.run(count, [&] { chain.post(); });
  };
  row("post, " + name, Paired(options.paired()).measure(take, post));
  const Ratio ratio = Paired(options.paired()).measure(take, acquire);
  row("async_acquire, " + name, ratio);
  promise_at_most("async-acquire-" + name + "-ns-over-a-take", ratio.more_ns, 60);
}

struct Waiters {
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point waiting;              // after the last call
  std::vector<std::chrono::system_clock::time_point> called;  // when the handlers were
  double questions = 0;
  double bytes = 0;
};

Waiters wait_for(std::size_t count, const Limit& limit) {
  MemoryStore memory;
  Counted store(memory);
  boost::asio::io_context loop(1);
  AsyncLimiter limiter(loop, store);
  Waiters result;
  result.called.resize(count);
  const std::size_t before = mallinfo2().uordblks;
  const auto deadline = Steady::now() + std::chrono::hours{1};
  result.start = std::chrono::system_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    limiter.async_acquire("user:0000000042", limit, 1, deadline,
                          [called = &result.called[i]](Error, const Decision&) {
                            *called = std::chrono::system_clock::now();
                          });
  }
  result.bytes =
      static_cast<double>(mallinfo2().uordblks - before) / static_cast<double>(limiter.waiting());
  result.waiting = std::chrono::system_clock::now();
  loop.run();
  result.questions = static_cast<double>(store.questions) / static_cast<double>(count);
  return result;
}

struct Late {
  double p50 = 0;  // ms
  double p99 = 0;
};

// `due`: the instant at which the units of the waiter with this number are due.
template <typename Due>
Late late_of(const Waiters& w, const Due& due) {
  std::vector<double> late;
  for (std::size_t i = 0; i < w.called.size(); ++i) {
    const auto from = std::max(due(w, i), w.waiting);
    late.push_back(std::chrono::duration<double, std::milli>(w.called[i] - from).count());
  }
  return {median(late), median(late, 0.99)};
}

template <typename Due>
void waiters(const Options& options, const std::string& name, const Limit& limit, const Due& due) {
  std::vector<double> p50, p99, questions, bytes;
  for (int run = 0; run < (options.smoke ? 1 : 5); ++run) {
    const Waiters w = wait_for(options.smoke ? 500 : 10'000, limit);
    const Late late = late_of(w, due);
    p50.push_back(late.p50);
    p99.push_back(late.p99);
    questions.push_back(w.questions);
    bytes.push_back(w.bytes);
  }
  std::printf("  %-20s late p50 %.3f ms, p99 %.3f ms (%.3f..%.3f); %.3f questions, %.0f bytes\n",
              name.c_str(), median(p50), median(p99), median(p99, 0), median(p99, 1),
              median(questions), median(bytes));
  promise_at_most("waiters-" + name + "-p99-late-ms", median(p99), 2);
  promise_at_most("waiters-" + name + "-questions-per-grant", median(questions), 1.05);
  promise_at_most("waiters-" + name + "-bytes", median(bytes), 300);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  using namespace std::chrono_literals;
  const Options options = Options::from(argc, argv);
  {
    const IdleThread idle;
    table("async_acquire: nobody waits", kUncontendedLegend);
    uncontended(options, "token_bucket", sluice::token_bucket(4'000'000'007).per(1h));
    uncontended(options, "fixed_window", sluice::fixed_window(4'000'000'007).per(1h));
  }
  std::printf("\n== 10,000 waiters of one key\n%s\n", kWaitersLegend);
  waiters(options, "token_bucket", sluice::token_bucket(5000).per(1s).burst(1),
          [](const Waiters& w, std::size_t i) { return w.start + static_cast<int>(i) * 200us; });
  waiters(options, "fixed_window", sluice::fixed_window(100).per(20ms).aligned_to_clock(),
          [](const Waiters& w, std::size_t i) {
            if (i < 100) return w.start;
            const auto first = w.start - w.start.time_since_epoch() % 20ms;
            return first + static_cast<int>(i / 100) * 20ms;
          });
  // The units of a log are due when those of the last hundred calls leave the window.
  waiters(
      options, "sliding_window_log", sluice::sliding_window_log(100).per(20ms),
      [](const Waiters& w, std::size_t i) { return i < 100 ? w.start : w.called[i - 100] + 20ms; });
}
