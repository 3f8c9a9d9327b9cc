#include <benchmark/benchmark.h>

#include "server/net/fiber.h"

namespace sluice::server::net {
namespace {

// The baseline: the functions of a job.
void call(benchmark::State& state) {
  int runs = 0;
  FiberJob job{[&] { benchmark::DoNotOptimize(++runs); }};
  benchmark::DoNotOptimize(job);
  for (auto _ : state) {
    job.run();
    job.done();
  }
}

void run_without_waiting(benchmark::State& state) {
  FiberPool pool({});
  int runs = 0;
  FiberJob job{[&] { benchmark::DoNotOptimize(++runs); }};
  for (auto _ : state) pool.run(job);
}

void run_with_one_wait(benchmark::State& state) {
  FiberPool pool({});
  FiberWait* waits = nullptr;
  FiberJob job{[&] {
    FiberWait wait;
    waits = &wait;
    wait.wait();
  }};
  for (auto _ : state) {
    pool.run(job);
    waits->finish();
  }
}

BENCHMARK(call)->Name("fiber/call");
BENCHMARK(run_without_waiting)->Name("fiber/run");
BENCHMARK(run_with_one_wait)->Name("fiber/run_and_wait");

}  // namespace
}  // namespace sluice::server::net
