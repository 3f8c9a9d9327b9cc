#include <benchmark/benchmark.h>

#include "server/fiber/fiber.h"

namespace sluice::server::fiber {
namespace {

class Counting final : public Job {
 public:
  void run() override { benchmark::DoNotOptimize(++runs_); }
  void done() override {}

 private:
  int runs_ = 0;
};

class Waiting final : public Job {
 public:
  void run() override {
    Wait wait;
    wait_ = &wait;
    wait.wait();
  }
  void done() override {}
  void go_on() { wait_->finish(); }

 private:
  Wait* wait_ = nullptr;
};

// The baseline: a virtual call.
void call(benchmark::State& state) {
  Counting job;
  Job* const behind = &job;
  benchmark::DoNotOptimize(behind);
  for (auto _ : state) {
    behind->run();
    behind->done();
  }
}

void run_without_waiting(benchmark::State& state) {
  Pool pool({});
  Counting job;
  for (auto _ : state) pool.run(job);
}

void run_with_one_wait(benchmark::State& state) {
  Pool pool({});
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
}  // namespace sluice::server::fiber
