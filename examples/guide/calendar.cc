// Quotas by the calendar, and blocks after repeated denials.
#include <sluice/block.h>
#include <sluice/calendar.h>
#include <sluice/sluice.h>
#include <sluice/testing/manual_clock.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

using namespace std::chrono_literals;
using std::chrono::sys_days;

// [start quota]
// 1000 calls from the 15th to the 15th, by the clocks of Shanghai.
sluice::Limit monthly_quota() {
  return sluice::fixed_window(1000).per(sluice::calendar_month("Asia/Shanghai", 15));
}

void call(sluice::Limiter& limiter, const sluice::Limit& quota, std::uint64_t calls) {
  const sluice::Decision decision = limiter.try_acquire("customer:42", quota, calls);
  if (decision) {
    std::printf("%lu calls left\n", decision.remaining);
  } else if (decision.retry_after) {
    const auto days = std::chrono::ceil<std::chrono::days>(*decision.retry_after);
    std::printf("again in %d days\n", static_cast<int>(days.count()));
  }
}
// [end quota]

void show_mistake() {
  try {
    sluice::fixed_window(1000).per(sluice::calendar_month("Asia/Shangai"));
  } catch (const std::invalid_argument& error) {
    std::puts(error.what());
  }
}

// [start block]
// A user who fails 3 times within 10 minutes is denied for 15 minutes, then for 30, at most a day.
const sluice::Block kBlock =
    *sluice::Block::make({.after = 3, .within = 10min, .time = 15min, .growth = 200});

sluice::Charge login_of(const char* user) {
  return {.key = user, .limit = sluice::fixed_window(5).per(1min), .block = &kBlock};
}

void log_in(sluice::Limiter& limiter, const char* user) {
  const sluice::Decision decision = limiter.check(std::array{login_of(user)});
  if (decision.reason == sluice::Reason::kBlocked) {
    const auto wait = std::chrono::ceil<std::chrono::minutes>(*decision.retry_after);
    std::printf("%s is blocked for %d min\n", user, static_cast<int>(wait.count()));
  } else {
    std::printf("%s: %s\n", user, decision ? "try the password" : "too fast");
  }
}
// [end block]

void by_hand(sluice::Limiter& limiter) {
  limiter.apply({sluice::Verb::kBlock, 1h}, std::array{login_of("mallory")});
  log_in(limiter, "mallory");
  limiter.apply(sluice::Verb::kUnblock, std::array{login_of("mallory")});
  log_in(limiter, "mallory");
}

int main() {
  sluice::testing::ManualClock clock;
  clock.set(sys_days{2026y / 1 / 20});
  sluice::MemoryStore store({}, clock);
  sluice::Limiter limiter(store);
  const sluice::Limit quota = monthly_quota();
  call(limiter, quota, 999);
  call(limiter, quota, 2);
  clock.advance(26 * 24h);
  call(limiter, quota, 2);
  show_mistake();
  for (int i = 0; i < 8; ++i) log_in(limiter, "alice");
  by_hand(limiter);
}
