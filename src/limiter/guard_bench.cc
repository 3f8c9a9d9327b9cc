// What a guard costs beyond the take that it makes.
//
//   Plain       try_acquire with a key that is there already: the baseline
//   Guarded     the same take by a guard, whose key it composes from the argument: a text by member
//               pointer, or a number; of two limits, against check() of two charges
//   Require     the same take by require(), whose key begins with the function's name
//
// Every take is admitted and falls on one of 1024 counters in turn, so that all of it stays in the
// caches: a bias against the guards, whose own work is the larger share then. The guarded function
// is empty and out of line; its call is a part of what the guard costs.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "sluice/sluice.h"
#include "sluice/testing/manual_clock.h"

namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = sluice::token_bucket(sluice::kMaxUnits).per(1s);
constexpr std::size_t kCounters = 1024;

struct Request {
  std::string email;
  int user = 0;
};

[[gnu::noinline]] int serve(const Request& request) {
  benchmark::DoNotOptimize(&request);
  return request.user;
}

struct Fixture {
  sluice::testing::ManualClock clock;
  sluice::MemoryStore store{{}, clock};
  sluice::Limiter limiter{store};
  std::vector<Request> requests;
  std::size_t next = 0;

  Fixture() {
    for (int i = 0; i < static_cast<int>(kCounters); ++i) {
      requests.push_back({"someone." + std::to_string(1000 + i) + "@example.org", i});
    }
  }
  const Request& request() { return requests[next++ % kCounters]; }
};

void BM_Plain(benchmark::State& state) {
  Fixture f;
  for (auto _ : state) {
    const Request& request = f.request();
    auto decision = f.limiter.try_acquire(request.email, kLimit);
    if (decision) benchmark::DoNotOptimize(serve(request));
  }
}
BENCHMARK(BM_Plain);

void BM_GuardedByText(benchmark::State& state) {
  Fixture f;
  const auto guarded =
      sluice::guarded(f.limiter, "serve", kLimit).key(&Request::email).throwing(serve);
  for (auto _ : state) benchmark::DoNotOptimize(guarded(f.request()));
}
BENCHMARK(BM_GuardedByText);

void BM_GuardedByNumber(benchmark::State& state) {
  Fixture f;
  const auto guarded =
      sluice::guarded(f.limiter, "serve", kLimit).key(&Request::user).returning(serve);
  for (auto _ : state) benchmark::DoNotOptimize(guarded(f.request()));
}
BENCHMARK(BM_GuardedByNumber);

[[gnu::noinline]] int require_and_serve(sluice::Limiter& limiter, const Request& request) {
  sluice::require(limiter, kLimit, request.email);
  return request.user;
}

void BM_Require(benchmark::State& state) {
  Fixture f;
  for (auto _ : state) benchmark::DoNotOptimize(require_and_serve(f.limiter, f.request()));
}
BENCHMARK(BM_Require);

void BM_PlainOfTwo(benchmark::State& state) {
  Fixture f;
  for (auto _ : state) {
    const Request& request = f.request();
    const std::array charges{sluice::Charge{"all", kLimit}, sluice::Charge{request.email, kLimit}};
    std::array<sluice::Decision, 2> each;
    auto decision = f.limiter.check(charges, each);
    if (decision) benchmark::DoNotOptimize(serve(request));
  }
}
BENCHMARK(BM_PlainOfTwo);

void BM_GuardedByTwo(benchmark::State& state) {
  Fixture f;
  const auto guarded = sluice::guarded(f.limiter, "serve", sluice::global(kLimit),
                                       sluice::per(&Request::email, kLimit))
                           .throwing(serve);
  for (auto _ : state) benchmark::DoNotOptimize(guarded(f.request()));
}
BENCHMARK(BM_GuardedByTwo);

}  // namespace
