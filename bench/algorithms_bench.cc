// The arithmetic of a decision, without key, lock or table, which a store adds.

#include <benchmark/benchmark.h>

#include <array>

#include "bench/workload.h"
#include "core/fixed_size.h"
#include "core/sliding_window_counter.h"

namespace sluice::bench {
namespace {

void decide_fixed_size(benchmark::State& state, const Limit& limit) {
  Timeline time;
  core::State held{.last = time.next().time_since_epoch().count()};
  for (auto _ : state) {
    const core::State at = core::advance(limit, held, time.next().time_since_epoch().count());
    const core::Quote quote = core::quote(limit, at, 1);
    if (quote.admitted) held = core::take(at, 1);
    core::Numbers numbers = core::describe(limit, quote.admitted ? held : at);
    benchmark::DoNotOptimize(numbers);
  }
}

void decide_counter(benchmark::State& state, const Limit& limit) {
  namespace counter = core::sliding_window_counter;
  Timeline time;
  std::array<std::uint32_t, kDefaultSlices + 1> held{};
  const std::span counts(held.data(), limit.slices() + 1);
  core::Ticks last = time.next().time_since_epoch().count();
  for (auto _ : state) {
    const core::Ticks now = time.next().time_since_epoch().count();
    const auto view =
        counter::advance(counter::Grid(limit), limit.weighting(), {counts, last}, now);
    const core::Quote quote = counter::quote(limit, view, 1);
    core::Numbers numbers = counter::describe(limit, view, quote.admitted ? 1 : 0);
    benchmark::DoNotOptimize(numbers);
    if (!quote.admitted) continue;
    counter::take(view, 1, counts);
    last = now;
  }
}

const Numbers kNumbers = numbers_for(1);

BENCHMARK_CAPTURE(decide_fixed_size, token_bucket, token_bucket(kNumbers.limit).per(kNumbers.per));
BENCHMARK_CAPTURE(decide_fixed_size, token_bucket_by_interval,
                  token_bucket(kNumbers.limit).per(kNumbers.per).refilled_at_intervals());
BENCHMARK_CAPTURE(decide_fixed_size, gcra, gcra(kNumbers.limit).per(kNumbers.per));
BENCHMARK_CAPTURE(decide_fixed_size, fixed_window, fixed_window(kNumbers.limit).per(kNumbers.per));
BENCHMARK_CAPTURE(decide_counter, sliding_window_counter,
                  sliding_window_counter(kNumbers.limit).per(kNumbers.per));
BENCHMARK_CAPTURE(decide_counter, sliding_window_counter_of_1_slice,
                  sliding_window_counter(kNumbers.limit).per(kNumbers.per).slices(1));

}  // namespace
}  // namespace sluice::bench
