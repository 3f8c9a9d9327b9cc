// Takes with explicit timestamps, whose instructions test_instructions.py counts.
//
//   take_client TAKES
//
// Takes one unit of a token bucket for each of 1,000 keys in turn. Time advances by 1 µs a take.

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "sluice/limit_builder.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"

int main(int count, char** words) {
  using std::chrono_literals::operator""s;
  if (count != 2) return 2;
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  const sluice::Limit limit = sluice::token_bucket(1'000'000).per(1s);
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("user:" + std::to_string(100'000 + i));
  const long takes = std::strtol(words[1], nullptr, 10);
  sluice::Instant now{std::chrono::hours(24)};
  long allowed = 0;
  for (long i = 0; i < takes; ++i, now += sluice::Duration{1}) {
    const std::string& key = keys[static_cast<std::size_t>(i) % keys.size()];
    if (limiter.try_acquire(key, limit, 1, now)) ++allowed;
  }
  return allowed == takes ? 0 : 1;
}
