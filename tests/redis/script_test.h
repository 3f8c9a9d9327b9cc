#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "tests/property/generate.h"
#include "tests/property/history.h"
#include "tests/redis/plan_store.h"

namespace sluice_redis {

inline sluice::Instant instant(std::int64_t at_us) {
  return sluice::Instant{sluice::Duration{at_us}};
}

// The longest period. No window of it ends during a test, except on a day far from today.
inline constexpr sluice::Duration kLong = std::chrono::days{366};

// Returns a limit of each algorithm and of each option that changes how it counts.
inline std::vector<sluice::Limit> every_kind(std::uint64_t limit, sluice::Duration per) {
  using sluice::fixed_window, sluice::gcra, sluice::leaky_bucket, sluice::token_bucket;
  using sluice::sliding_window_counter, sluice::sliding_window_hybrid, sluice::sliding_window_log;
  return {token_bucket(limit).per(per),
          token_bucket(limit).per(per).refilled_at_intervals(),
          leaky_bucket(limit).per(per),
          leaky_bucket(limit).per(per).queueing(),
          gcra(limit).per(per),
          fixed_window(limit).per(per),
          fixed_window(limit).per(per).aligned_to_clock(),
          sliding_window_log(limit).per(per),
          sliding_window_counter(limit).per(per).slices(4),
          sliding_window_counter(limit).per(per).slices(4).counting_oldest_whole(),
          sliding_window_hybrid(limit).per(per).slices(4)};
}

// Returns the Redis key of a counter, as specified by docs/reference/state-format.md.
inline std::string redis_key(std::string_view prefix, sluice::Algorithm algorithm,
                             std::string_view key) {
  return std::string(prefix) + sluice::info(algorithm).letter + "{}" + std::string(key);
}

// One server for all tests of a program, emptied before each.
class ScriptTest : public ::testing::Test {
 protected:
  static constexpr std::string_view kPrefix = "test:";
  static constexpr std::int64_t kStart = 1700000000123456;

  static RedisServer& server() {
    static RedisServer server;
    return server;
  }
  ScriptTest() { redis_.run({"FLUSHALL"}); }

  std::string dump(std::string_view key) { return redis_.text({"DUMP", key}); }
  std::int64_t number(std::initializer_list<std::string_view> words) {
    return redis_.run(words)->integer;
  }
  std::int64_t server_time() {
    const Reply time = redis_.run({"TIME"});
    return std::stoll(std::string((*time)[0].text)) * 1000000 +
           std::stoll(std::string((*time)[1].text));
  }

  ScriptConnection redis_{server()};
  PlanStore store_{redis_, std::string(kPrefix)};
  sluice::Limiter limiter_{store_};
};

}  // namespace sluice_redis
