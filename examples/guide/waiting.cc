// Threads that wait for a limit.
#include <sluice/guard.h>
#include <sluice/sluice.h>

#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

// [start wait]
void work(sluice::Limiter& limiter) {
  constexpr auto kJobs = sluice::token_bucket(100).per(1s).burst(1);
  for (int i = 1; i <= 3; ++i) {
    const auto decision = limiter.acquire("jobs", kJobs, 1, 10s);
    if (!decision) break;
    std::printf("job %d\n", i);  // one each 10 ms
  }
}
// [end wait]

// [start deadline]
void nightly(sluice::Limiter& limiter) {
  constexpr auto kBackups = sluice::token_bucket(1).per(24h);
  for (int i = 0; i < 2; ++i) {
    const auto decision = limiter.acquire("backups", kBackups, 1, 10s);
    std::puts(decision ? "backup" : "no backup: the wait would be too long");
  }
}
// [end deadline]

void print_pages(sluice::Limiter& limiter) {
  const auto print = sluice::guarded(limiter, "print", sluice::leaky_bucket(200).per(1s))
                         .waiting(1s)
                         .throwing([](int page) { std::printf("page %d\n", page); });
  for (int page = 1; page <= 3; ++page) print(page);
}

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  work(limiter);
  nightly(limiter);
  print_pages(limiter);
}
