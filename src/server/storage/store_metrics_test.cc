#include "server/storage/stores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "sluice/leased_store.h"
#include "sluice/limiter.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

// Returns the value of a series in the registry's text.
std::string value(const metrics::Registry& registry, const std::string& series) {
  const std::string text = "\n" + registry.text();
  const auto at = text.find("\n" + series + " ");
  if (at == text.npos) return "(absent)";
  const auto from = at + series.size() + 2;
  return text.substr(from, text.find('\n', from) - from);
}

// Denies every request for a minute.
class Denying final : public Store {
 public:
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    const Decision denied{
        .outcome = Outcome::kDenied, .reason = Reason::kLimited, .retry_after = Duration{1min}};
    for (Decision& decision : each) decision = denied;
    return denied;
  }
};

TEST(SlowRequests, AreMoreThanOnePercentWithinAMinute) {
  SlowRequests slow;
  metrics::DurationCounts all;
  std::uint64_t timeouts = 7;
  Instant now{1h};
  const auto pass = [&](std::uint64_t fast_ones, std::uint64_t slow_ones) {
    all.buckets[13] += fast_ones;  // at most 8.192 ms
    all.buckets[14] += slow_ones;
    slow.add(all, timeouts, now += SlowRequests::kEvery);
  };
  all.buckets[20] = 1000;  // before the server was looked at
  pass(0, 0);
  pass(991, 9);
  EXPECT_FALSE(slow.since()) << "fewer than ten";
  pass(109, 1);
  EXPECT_FALSE(slow.since()) << "less than one percent";
  pass(0, 5);
  EXPECT_EQ(slow.since(), now);
  EXPECT_EQ(slow.why(), "1.3 % of 1115 requests within a minute took more than 8 ms");
  const Instant since = now;
  timeouts += 3;
  pass(0, 0);
  EXPECT_EQ(
      slow.why(),
      "1.3 % of 1115 requests within a minute took more than 8 ms; 3 had no answer in time and "
      "were decided without it");
  for (int i = 0; i < 3; ++i) pass(0, 0);
  EXPECT_EQ(slow.since(), std::nullopt) << "9 of them are more than a minute ago";
  pass(10, 10);
  EXPECT_GT(slow.since(), since);
}

TEST(StoreMetrics, ReportTheStateOfTheStore) {
  testing::ManualClock clock;
  Log log({.level = LogLevel::kOff}, STDERR_FILENO);
  StoreLog events(log, clock);
  CircuitBreaker breaker({.failures = 1}, &events, clock);
  DenyCache cache({}, clock);
  metrics::Registry registry;
  const Leases leases;
  add_store_metrics(
      registry, events, breaker, leases,
      [] {
        return RedisStoreStats{.requests = 10,
                               .timeouts = 1,
                               .errors = 2,
                               .redirects = 3,
                               .gave_back = 4,
                               .connected = 5,
                               .pending = 6};
      },
      &cache, [] { return metrics::DurationCounts{.buckets = {0, 2}, .sum_ns = 3000}; });
  EXPECT_EQ(value(registry, "sluice_store_duration_seconds_bucket{le=\"1e-06\"}"), "0");
  EXPECT_EQ(value(registry, "sluice_store_duration_seconds_bucket{le=\"2e-06\"}"), "2");
  EXPECT_EQ(value(registry, "sluice_store_duration_seconds_count"), "2");
  EXPECT_EQ(value(registry, "sluice_store_duration_seconds_sum"), "3e-06");
  EXPECT_EQ(value(registry, "sluice_store_asked_total"), "10");
  EXPECT_EQ(value(registry, "sluice_store_timeouts_total"), "1");
  EXPECT_EQ(value(registry, "sluice_store_errors_total"), "2");
  EXPECT_EQ(value(registry, "sluice_store_redirects_total"), "3");
  EXPECT_EQ(value(registry, "sluice_store_given_back_total"), "4");
  EXPECT_EQ(value(registry, "sluice_store_connections"), "5");
  EXPECT_EQ(value(registry, "sluice_store_pending"), "6");
  EXPECT_EQ(value(registry, "sluice_store_breaker_open"), "0");
  EXPECT_EQ(value(registry, "sluice_store_events_total{event=\"breaker_opened\"}"), "0");

  breaker.record(breaker.try_pass(), Reason::kStoreError);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(breaker.try_pass());
  EXPECT_EQ(value(registry, "sluice_store_breaker_open"), "1");
  EXPECT_EQ(value(registry, "sluice_store_not_asked_total"), "3");
  EXPECT_EQ(value(registry, "sluice_store_events_total{event=\"breaker_opened\"}"), "1");

  Denying denying;
  DenyCacheStore cached(denying, cache);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Limiter(cached).try_acquire("k", gcra(1).per(1h)));
  EXPECT_EQ(value(registry, "sluice_deny_cache_hits_total"), "2");
}

TEST(StoreMetrics, NeedNoDenyCache) {
  Log log({.level = LogLevel::kOff}, STDERR_FILENO);
  StoreLog events(log);
  CircuitBreaker breaker;
  metrics::Registry registry;
  const Leases leases;
  add_store_metrics(registry, events, breaker, leases, [] { return RedisStoreStats{}; });
  EXPECT_EQ(value(registry, "sluice_deny_cache_hits_total"), "0");
}

TEST(StoreMetrics, ReportLeases) {
  Log log({.level = LogLevel::kOff}, STDERR_FILENO);
  StoreLog events(log);
  CircuitBreaker breaker;
  metrics::Registry registry;
  Leases leases;
  add_store_metrics(registry, events, breaker, leases, [] { return RedisStoreStats{}; });
  MemoryStore memory;
  LeasedStore store(memory, leases, LeaseReturns::kByCaller);
  const Limit limit = token_bucket(1000).per(1h).leased(10s);
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(Limiter(store).try_acquire("k", limit).allowed());
  EXPECT_EQ(value(registry, "sluice_lease_local_total"), "2");
  EXPECT_EQ(value(registry, "sluice_lease_batches_total"), "1");
  EXPECT_EQ(value(registry, "sluice_lease_units_taken_total"), "4");
  EXPECT_EQ(value(registry, "sluice_lease_counters"), "1");
  store.give_back(LeaseEnd::kAll);
  EXPECT_EQ(value(registry, "sluice_lease_units_given_back_total"), "1");
  EXPECT_EQ(value(registry, "sluice_lease_counters"), "0");
}

TEST(StoreMetrics, ReportTheNumbersOfTheMemoryStore) {
  metrics::Registry registry;
  add_memory_metrics(registry, [] {
    return MemoryStoreStats{
        .keys = 1, .log_bytes = 2, .evictions = 3, .swept = 4, .merged_logs = 5};
  });
  EXPECT_EQ(value(registry, "sluice_store_keys"), "1");
  EXPECT_EQ(value(registry, "sluice_store_log_bytes"), "2");
  EXPECT_EQ(value(registry, "sluice_store_evictions_total"), "3");
  EXPECT_EQ(value(registry, "sluice_store_swept_total"), "4");
  EXPECT_EQ(value(registry, "sluice_store_merged_logs_total"), "5");
}

}  // namespace
}  // namespace sluice::server
