#include <benchmark/benchmark.h>

#include "server/net/fiber.h"

namespace sluice::server::net {
namespace {

class Counting final : public FiberJob {
 public:
  void run() override { benchmark::DoNotOptimize(++runs_); }
  void done() override {}

 private:
  int runs_ = 0;
};

class Waiting final : public FiberJob {
 public:
  void run() override {
    FiberWait wait;
    wait_ = &wait;
    wait.wait();
  }
  void done() override {}
  void go_on() { wait_->finish(); }

 private:
  FiberWait* wait_ = nullptr;
};

// The baseline: a virtual call.
void call(benchmark::State& state) {
  Counting job;
  FiberJob* base = &job;
  benchmark::DoNotOptimize(base);
  for (auto _ : state) {
    base->run();
    base->done();
  }
}

void run_without_waiting(benchmark::State& state) {
  FiberPool pool({});
  Counting job;
  for (auto _ : state) pool.run(job);
}

void run_with_one_wait(benchmark::State& state) {
  FiberPool pool({});
  Waiting job;
  for (auto _ : state) {
    pool.run(job);
    job.go_on();
  }
}

BENCHMARK(call)->Name("fiber/call");
BENCHMARK(run_without_waiting)->Name("fiber/run");
BENCHMARK(run_with_one_wait)->Name("fiber/run_and_wait");

}  // namespace
}  // namespace sluice::server::net
