// The arithmetic of a decision, without key, lock or table, which a store adds.

#include <benchmark/benchmark.h>

#include <array>

#include "bench/workload.h"
#include "core/algorithms.h"

namespace sluice::bench {
namespace {

constexpr core::Forgotten kNever{core::Forgotten::kNever};

void decide_fixed_size(benchmark::State& state, const Limit& limit) {
  Timeline time;
  core::State held{.last = time.next().time_since_epoch().count()};
  for (auto _ : state) {
    const core::Ticks now = time.next().time_since_epoch().count();
    auto step = core::step(Verb::kTake, limit, core::Kept{held, kNever}, now, 1);
    if (step.change == core::Change::kWrite) held = step.next;
    benchmark::DoNotOptimize(step.answer);
  }
}

void decide_counter(benchmark::State& state, const Limit& limit) {
  Timeline time;
  std::array<std::uint32_t, kDefaultSlices + 1> held{};
  const std::span counts(held.data(), limit.slices() + 1);
  core::Slices slices{counts, time.next().time_since_epoch().count(), core::SliceGrid(limit)};
  for (auto _ : state) {
    const core::Ticks now = time.next().time_since_epoch().count();
    auto step = core::step(Verb::kTake, limit, core::Kept{slices, kNever}, now, 1);
    benchmark::DoNotOptimize(step.answer);
    if (step.change != core::Change::kWrite) continue;
    step.next.write(counts);
    slices.last = step.at;
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
