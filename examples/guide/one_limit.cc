// One limit, and several limits as one decision.
// [start one]
#include <sluice/sluice.h>

#include <array>
#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

constexpr auto kExports = sluice::token_bucket(10).per(1h).burst(2);

void export_report(sluice::Limiter& limiter, const char* customer) {
  const sluice::Decision decision = limiter.try_acquire(customer, kExports);
  if (decision) {
    std::printf("exported, %lu left\n", decision.remaining);
  } else if (decision.retry_after) {
    const auto wait = std::chrono::ceil<std::chrono::minutes>(*decision.retry_after);
    std::printf("denied, again in %d min\n", static_cast<int>(wait.count()));
  } else {
    std::puts("not available");  // the store has failed
  }
}

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  for (int i = 0; i < 3; ++i) export_report(limiter, "customer:42");
  // [end one]
  // [start two]
  constexpr auto kAllExports = sluice::fixed_window(1000).per(24h).aligned_to_clock();
  const std::array charges{sluice::Charge{"customer:43", kExports},
                           sluice::Charge{"all", kAllExports}};
  std::array<sluice::Decision, 2> each;
  if (limiter.check(charges, each)) {
    std::printf("customer: %lu left, all: %lu left\n", each[0].remaining, each[1].remaining);
  }
  // [end two]
}
