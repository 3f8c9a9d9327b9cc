// Stores that protect from a slow or dead store: the circuit breaker, open and closed, and the deny
// cache, compared with a take on the memory store.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bench/report.h"
#include "bench/workload.h"
#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "sluice/memory_store.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "One Limiter::try_acquire(key, limit) through the decorators against the same on a memory\n"
    "store alone, at the store's own time. `open`: the store behind fails, the breaker is open, "
    "the\n"
    "policy answers. `closed`: a memory store behind, so that the ratio is what asking through it\n"
    "costs. `hit`: every key is denied, the cache answers; `miss`: it holds none of them. Keys of\n"
    "15 bytes in random order. Processor time of one thread.";

constexpr std::size_t kStream = 1 << 14;
constexpr auto kFree = token_bucket(1'000'000'000).per(std::chrono::seconds{1});
constexpr auto kFull = fixed_window(1).per(std::chrono::days{300});

// A store that always fails.
class Gone final : public Store {
 public:
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    const Decision failed = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), failed);
    return failed;
  }
};

class PolicyBench {
 public:
  explicit PolicyBench(const Options& options) : options_(options) {}

  void run_open(const std::string& name, FailurePolicy policy) {
    Gone gone;
    CircuitBreaker breaker(
        {.failures = 1, .open_for = std::chrono::hours{1}, .longest_open = std::chrono::hours{1}});
    FailurePolicyStore store(gone, breaker, {.fallback = policy, .nodes = 4});
    const Ratio ratio = measure("open, " + name, store, kFree, 1000);
    promise_at_most("policy-open-" + name + "-ns", ratio.subject_ns, 1000);
  }
  void run_closed() {
    MemoryStore memory;
    CircuitBreaker breaker;
    FailurePolicyStore store(memory, breaker, {.fallback = FailurePolicy::kAllow});
    measure("closed", store, kFree, 1000);
  }
  void run_miss() {
    MemoryStore memory;
    DenyCache cache;
    DenyCacheStore store(memory, cache);
    measure("deny cache, miss", store, kFree, 1000);
  }
  void run_hit(std::size_t keys) {
    MemoryStore memory;
    DenyCache cache({.max_keys = 4 * keys, .longest = std::chrono::hours{1}});
    DenyCacheStore store(memory, cache);
    const Ratio ratio = measure("deny cache, hit", store, kFull, keys);
    const std::string name = "policy-deny-cache-hit-" + short_count(keys) + "-ns";
    promise_at_most(name, ratio.subject_ns, 100);
  }

 private:
  Ratio measure(const std::string& name, Store& store, const Limit& limit, std::size_t keys) {
    const KeyStream stream(keys, kStream);
    MemoryStore plain;
    Limiter base(plain);
    Limiter subject(store);
    const auto take = [&](Limiter& limiter) {
      return [&](std::size_t first, std::size_t count) {
        stream.each(first, count, [&](std::string_view key) {
          benchmark::DoNotOptimize(limiter.try_acquire(key, limit));
        });
      };
    };
    for (int i = 0; i < 2; ++i) {  // admitted, then denied
      take(base)(0, kStream);
      take(subject)(0, kStream);
    }
    const Ratio ratio = Paired(options_.paired()).measure(take(base), take(subject));
    row(name + ", keys " + short_count(keys), ratio);
    return ratio;
  }

  Options options_;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  using sluice::FailurePolicy;
  PolicyBench bench(Options::from(argc, argv));
  table("policy: a store that is gone, and denials that are remembered", kLegend);
  bench.run_open("allow", FailurePolicy::kAllow);
  bench.run_open("deny", FailurePolicy::kDeny);
  bench.run_open("local", FailurePolicy::kLocal);
  bench.run_closed();
  bench.run_miss();
  bench.run_hit(1);
  bench.run_hit(10'000);
}
