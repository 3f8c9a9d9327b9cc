// Quota leases: a busy counter is asked for units once per lease instead of once per request.
#include <sluice/leased_store.h>
#include <sluice/sluice.h>

#include <cstdio>

using namespace std::chrono_literals;

int main() {
  sluice::MemoryStore store;  // instead of a RedisStore
  // [start leases]
  constexpr sluice::Limit kSearch = sluice::token_bucket(100'000).per(1s).leased(10s);
  sluice::Leases leases({.nodes = 4});  // four processes share the limits
  sluice::LeasedStore leased(store, leases);
  sluice::Limiter limiter(leased);
  for (int i = 0; i < 1000; ++i) {
    if (!limiter.try_acquire("search", kSearch)) std::puts("too many requests");
  }
  std::printf("%d of 1000 requests asked the store\n",
              1000 - static_cast<int>(leases.stats().local));
  // [end leases]
}
