// HTTP response fields from a decision.
#include <sluice/sluice.h>

#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

// [start fields]
void respond(const sluice::Limit& limit, const sluice::Decision& decision) {
  static thread_local sluice::HttpFields fields;
  std::printf("HTTP/1.1 %d\n", sluice::http_status(decision));
  for (const auto& [name, value] : fields.of("user", limit, decision)) {
    std::printf("%.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
                static_cast<int>(value.size()), value.data());
  }
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
