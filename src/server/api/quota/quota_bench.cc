// How many reports the quota service takes a second, the memory of a bucket, and the time of one
// division among many subscribers.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "server/api/quota/quota_service.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

class Nobody final : public QuotaProxy {
 public:
  void send(std::vector<BucketOrder>) override {}
};

// A service with proxies that report buckets.
class Reports {
 public:
  Reports() : rules_(open()) {}

  void connect(std::uint64_t proxies) {
    for (std::uint64_t id = 0; id < proxies; ++id) {
      service_.open(id, "shop", "10.0.0.1", std::make_shared<Nobody>());
    }
  }
  void report(std::uint64_t proxy, std::uint64_t bucket, std::uint64_t requests) {
    const std::string user = "user-" + std::to_string(bucket);
    service_.report(proxy, {{.bucket = user,
                             .attributes = {{"path", "/api"}, {"user", user}},
                             .elapsed = 5s,
                             .allowed = requests}});
  }

  static std::unique_ptr<RulesManager> open() {
    constexpr std::string_view kRules = R"(
version: 1
domain: shop
rules:
  - name: api
    match: { path: /api }
    limits: [ { name: requests, key: "{user}", algorithm: token_bucket, limit: 100000, per: 1s } ]
)";
    auto rules = RulesManager::open_source({{"rules", std::string(kRules)}});
    if (!rules) std::abort();
    return std::move(*rules);
  }

  testing::ManualClock clock_{Instant{std::chrono::hours{365 * 24}}};
  MemoryStore memory_{{}, clock_};
  Limiter limiter_{memory_};
  Log log_{{.level = LogLevel::kOff}};
  QuotaConfig config_;
  std::unique_ptr<RulesManager> rules_;
  QuotaService service_{
      {.rules = *rules_, .limiter = limiter_, .log = log_, .config = config_, .steady = clock_}};
};

// 100 proxies that report 1,000 buckets each, in messages of 100; the counters are shared.
void report_buckets(benchmark::State& state) {
  constexpr std::uint64_t kProxies = 100, kBuckets = 1000;
  const auto before = ::mallinfo2().uordblks;
  Reports reports;
  reports.connect(kProxies);
  for (std::uint64_t bucket = 0; bucket < kBuckets; ++bucket) {
    for (std::uint64_t proxy = 0; proxy < kProxies; ++proxy) reports.report(proxy, bucket, 50);
  }
  reports.service_.divide(true);
  const auto used = static_cast<double>(::mallinfo2().uordblks - before);
  state.counters["bytes_a_bucket"] = used / (kProxies * kBuckets);
  std::uint64_t at = 0;
  for (auto _ : state) {
    // What a proxy reports at once.
    for (int i = 0; i < 100; ++i, ++at) {
      reports.report(at / kBuckets % kProxies, at % kBuckets, 40 + at % 20);
    }
    reports.clock_.advance(1ms);
    reports.service_.divide(false);
  }
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(report_buckets)->Unit(benchmark::kMillisecond);

// One limit, 1,000 subscribers, one of which has reported.
void divide_among_1000(benchmark::State& state) {
  Reports reports;
  reports.connect(1000);
  for (std::uint64_t proxy = 0; proxy < 1000; ++proxy) reports.report(proxy, 0, 1000 + proxy);
  reports.service_.divide(true);
  std::uint64_t at = 0;
  for (auto _ : state) {
    reports.clock_.advance(5ms);
    reports.report(at % 1000, 0, 500 + at % 700);
    reports.service_.divide(false);
    ++at;
  }
}
BENCHMARK(divide_among_1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::server
