// HTTP response fields from a decision.
#include <sluice/sluice.h>

#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

// [start fields]
// Seconds are rounded up, so that a client that waits this long is admitted.
long long seconds(sluice::Duration wait) {
  return std::chrono::ceil<std::chrono::seconds>(wait).count();
}

void respond(const sluice::Limit& limit, const sluice::Decision& decision) {
  std::printf("HTTP/1.1 %s\n", decision ? "200 OK" : "429 Too Many Requests");
  std::printf("RateLimit-Policy: \"user\";q=%u;w=%lld\n", limit.capacity(),
              seconds(limit.period()));
  std::printf("RateLimit: \"user\";r=%u;t=%lld\n", decision.remaining,
              seconds(decision.reset_after));
  if (decision.retry_after) std::printf("Retry-After: %lld\n", seconds(*decision.retry_after));
  std::puts("");
}
// [end fields]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  constexpr sluice::Limit kPerUser = sluice::sliding_window_log(1).per(60s);
  const sluice::Instant start{24h * 365};  // explicit timestamps, for an output that stays the same
  respond(kPerUser, limiter.try_acquire("user:42", kPerUser, 1, start));
  respond(kPerUser, limiter.try_acquire("user:42", kPerUser, 1, start + 500ms));
}
