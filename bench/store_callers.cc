// RedisStore alone, the baseline of the front ends on Redis: 64 threads that share one store and
// wait for each answer, on processor 1.
//
//   store_callers URL SECONDS     prints decisions per second and processor us per decision

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "bench/store_callers.h"
#include "bench/threads.h"
#include "sluice/redis_store.h"

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  if (argc != 3) {
    std::fprintf(stderr, "usage: store_callers URL SECONDS\n");
    return 2;
  }
  pin_to_cpu(1);
  // A request that a busy machine delays is slow, not undecided.
  auto store = RedisStore::open({.url = argv[1], .deadline = std::chrono::seconds{30}});
  const auto ready = store ? (*store)->wait_until_ready(std::chrono::seconds{5})
                           : Status(Unexpected{store.error()});
  if (!ready) {
    std::fprintf(stderr, "store_callers: %s\n", ready.error().c_str());
    return 1;
  }
  Callers callers(**store, token_bucket(1'000'000'000).per(std::chrono::seconds{1}), kKeys);
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> wanted(std::atof(argv[2]));
  std::chrono::duration<double> taken{};
  constexpr std::size_t kInTurn = 6400;
  do {
    callers(callers.cost.asked, kInTurn);
    taken = std::chrono::steady_clock::now() - begin;
  } while (taken < wanted);
  if (callers.undecided() != 0) {
    std::fprintf(stderr, "store_callers: %llu requests were not decided\n",
                 static_cast<unsigned long long>(callers.undecided()));
    return 1;
  }
  std::printf("%.1f %.3f\n", static_cast<double>(callers.cost.asked) / taken.count(),
              callers.cost.us_each());
}
