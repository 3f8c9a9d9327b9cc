// Calls with explicit timestamps, whose instructions test_instructions.py counts.
//
//   take_client bucket|three|budget|hold CALLS
//
// Takes one unit of a token bucket or of a budget for each of 1,000 keys in turn; or of three token
// buckets as one request: one for all, one for each of 100 keys, and that of the key; or holds one
// of the budget, with an id of its own, and settles it. Time advances by 1 µs a call.

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/limit_builder.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"

namespace {

// Returns the exit status: 0 if all calls are allowed.
template <typename Call>
int repeat(long calls, Call call) {
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("user:" + std::to_string(100'000 + i));
  sluice::Instant now{std::chrono::hours(24)};
  long allowed = 0;
  for (long i = 0; i < calls; ++i, now += sluice::Duration{1}) {
    if (call(keys[static_cast<std::size_t>(i) % keys.size()], now)) ++allowed;
  }
  return allowed == calls ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  using namespace std::chrono_literals;
  using sluice::Instant;
  if (count != 3) return 2;
  const std::string_view what = words[1];
  const long calls = std::strtol(words[2], nullptr, 10);
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  const sluice::Limit bucket = sluice::token_bucket(1'000'000).per(1s);
  const sluice::Limit all = sluice::token_bucket(1'200'007).per(1s);
  const sluice::Limit budget = sluice::budget(sluice::kMaxAmount).per(24h);
  if (what == "bucket") {
    return repeat(calls, [&](const std::string& key, Instant now) {
      return limiter.try_acquire(key, bucket, 1, now).allowed();
    });
  }
  if (what == "three") {
    return repeat(calls, [&](const std::string& key, Instant now) {
      const std::string_view group = std::string_view(key).substr(key.size() - 2);
      const sluice::Charge charges[] = {{"all", all}, {group, bucket}, {key, bucket}};
      return limiter.check(charges, {}, now).allowed();
    });
  }
  if (what == "budget") {
    return repeat(calls, [&](const std::string& key, Instant now) {
      return limiter.try_acquire(key, budget, 1, now).allowed();
    });
  }
  long made = 0;
  return repeat(calls, [&](const std::string& key, Instant now) {
    const long number = ++made;
    const auto id =
        sluice::PermitId::named({reinterpret_cast<const char*>(&number), sizeof(number)});
    const sluice::Charge charge{.key = key, .limit = budget, .permit = &id};
    return store.apply_one({sluice::Verb::kHold, 30s}, charge, now).allowed() &&
           store.apply_one(sluice::Verb::kSettle, charge, now).allowed();
  });
}
