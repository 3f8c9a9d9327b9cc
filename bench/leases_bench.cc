// Measures quota leases in front of RedisStore: a hot key, and cold keys.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/redis_server.h"
#include "bench/report.h"
#include "bench/store_callers.h"
#include "bench/threads.h"
#include "sluice/leased_store.h"
#include "sluice/limiter.h"
#include "sluice/redis_store.h"

namespace sluice::bench {
namespace {

using namespace std::chrono_literals;

constexpr const char* kLegend =
    "One thread uses a RedisStore on a Unix socket through a LeasedStore; the redis-server has\n"
    "processor 0. The baseline is the same store without leases, wall time, turns in alternation;\n"
    "the ratio is that of the throughputs, leased / not leased. `hot`: one key of "
    "token_bucket(10M)\n"
    "per second with a lease of 100 ms. `cold`: each request has a new key. Round trips are all\n"
    "commands of the leased store, those that give back included.";

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "leases_bench: %s\n", what.c_str());
  std::exit(1);
}

std::unique_ptr<RedisStore> open_store(const RedisServer& server) {
  auto store = RedisStore::open({.url = server.url(), .deadline = 5s});
  if (!store) fail(store.error());
  if (const auto ready = (*store)->wait_until_ready(5s); !ready) fail(ready.error());
  return std::move(*store);
}

constexpr Limit kHot = token_bucket(10'000'000).per(1s).leased(100ms);
constexpr Limit kHotExact = token_bucket(10'000'000).per(1s);
constexpr Limit kCold = token_bucket(100).per(1s).leased(100ms);
constexpr Limit kColdExact = token_bucket(100).per(1s);

// Takes one unit of `limit` after the other. `is_cold`: from counters that are used once.
class Taker {
 public:
  Taker(Store& store, const Limit& limit, std::string prefix, bool is_cold)
      : limiter_(store), limit_(limit), prefix_(std::move(prefix)), is_cold_(is_cold) {}

  // Returns the time in nanoseconds.
  double operator()(std::size_t, std::size_t count) {
    const double start = now();
    std::string key = prefix_;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_cold_) key = prefix_ + std::to_string(next_++);
      if (!limiter_.try_acquire(key, limit_).allowed()) fail("a request was not admitted");
    }
    asked += count;
    return now() - start;
  }

  std::size_t asked = 0;

 private:
  double now() const { return is_cold_ ? process_cpu_ns() : now_ns(TimeOf::kWall); }

  Limiter limiter_;
  const Limit limit_;
  const std::string prefix_;
  const bool is_cold_;
  std::size_t next_ = 0;
};

int run(const Options& options) {
  const RedisServer server;
  const auto exact_store = open_store(server);
  const auto store = open_store(server);
  Leases leases;
  LeasedStore leased(*store, leases);
  PairedOptions paired = options.paired();
  paired.reciprocal = true;
  table("quota leases", kLegend);

  Taker hot(leased, kHot, "hot", false);
  Taker hot_exact(*exact_store, kHotExact, "exact", false);
  const std::uint64_t before = store->stats().requests;
  const Ratio of_hot = Paired(paired).measure(hot_exact, hot);
  // A turn of the baseline lets leases end, so the hot key is measured on its own, too.
  const std::size_t alone = options.smoke ? 10'000 : 5'000'000;
  const double seconds = hot(0, alone) / 1e9;
  const auto trips = static_cast<double>(store->stats().requests - before);
  const double each = static_cast<double>(hot.asked) / trips;
  const double million = static_cast<double>(alone) / seconds / 1e6;
  row("hot", of_hot, std::to_string(static_cast<long>(each)) + " decisions per round trip");
  std::printf("  hot, without turns of the baseline: %.2f M decisions/s\n", million);

  Taker cold(leased, kCold, "cold", true);
  Taker cold_exact(*exact_store, kColdExact, "cold exact", true);
  paired.pairs = options.smoke ? 3 : 101;
  const Ratio of_cold = Paired(paired).measure(cold_exact, cold);
  row("cold", of_cold);

  promise_at_least("leases-hot-decisions-a-round-trip", each, 50);
  promise_at_least("leases-hot-M-a-second", million, 1);
  promise_at_least("leases-cold-over-none", of_cold.ratio, 0.95);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  const auto options = sluice::bench::Options::from(argc, argv);
  sluice::bench::pin_to_cpu(1);
  return sluice::bench::run(options);
}
