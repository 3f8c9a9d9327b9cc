#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sluice/overrides.h"
#include "tests/simulation/quota_simulation.h"

// Servers with `store: quota://` and the one above: its real service and their real clients,
// without a network.
namespace sluice::quota_simulation {
namespace {

using namespace std::chrono_literals;

class QuotaZonesTest : public ::testing::Test {
 protected:
  struct Zone {
    std::unique_ptr<QuotaClient::Buckets> client;
    std::shared_ptr<QuotaBucket> bucket;
  };

  // The rules have one limit, with these terms. Each zone has its counter; a program of the domain
  // `shop` is one, too, with the attributes of requests.
  void start(const std::string& terms, std::size_t zones, bool are_programs = false) {
    zones_.clear();
    service_.reset();
    rules_ = std::move(
        *server::RulesManager::open_source({{.name = "rules", .text = rules_with(terms)}}));
    service_ = std::make_unique<server::QuotaService>(server::QuotaService::Parts{
        .rules = *rules_, .limiter = limiter_, .log = log_, .config = config_, .steady = clock_});
    zones_.resize(zones);
    const std::string domain(are_programs ? "shop" : server::kCounterDomain);
    const std::string name = are_programs ? "user" : "counter";
    for (std::size_t i = 0; i < zones; ++i) {
      Zone& zone = zones_[i];
      zone.client = std::make_unique<QuotaClient::Buckets>(options_, [] {}, &clock_);
      zone.bucket = zone.client->bucket({{name, are_programs ? "a" : kCounter}}, true);
      service_->open(i, domain, "10.0.0.1", [&zone, name](const auto& orders) {
        for (const server::BucketOrder& order : orders) {
          zone.client->take(message_of(order, {{name, order.bucket}}));
        }
      });
    }
  }
  static std::string rules_with(const std::string& terms) {
    return "version: 1\ndomain: shop\nrules: [ { name: api, limits: [ { name: all, key: "
           "\"{user}\", " +
           terms + " } ] } ]\n";
  }
  void change(const std::string& terms) {
    ASSERT_TRUE(rules_->replace(rules_with(terms), "rules"));
    service_->follow_rules();
    divide(true);
  }
  // Asks for a unit of the limit at the server above.
  Decision ask() {
    const RuleSet rules = rules_->current();
    const RuleLimit& limit = rules.rules()[0].limits[0];
    Charge charge{kCounter, limit.limit, 1};
    charge.block = limit.block ? &*limit.block : nullptr;
    charge.rule.keyspace = Keyspace::kRules;
    return store_.apply_one(Verb::kTake, charge, {});
  }
  // Returns how many requests were admitted; each zone has four in a second.
  std::uint64_t run(Duration time) {
    std::uint64_t admitted = 0;
    for (const Instant end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(10ms);
      ++steps_;
      for (std::size_t i = 0; i < zones_.size(); ++i) {
        if (steps_ % 25 == i && zones_[i].bucket->try_take()) ++admitted;
        if (steps_ % 101 != 10 * i) continue;  // not in step with the divisions
        service_->report(i, reports_of(*zones_[i].client));
        divide(false);
      }
      const bool divides_all = steps_ % 100 == 0;
      if (divides_all || service_->next() <= clock_.now()) divide(divides_all);
    }
    return admitted;
  }
  // Until there is no news.
  void divide(bool all) {
    service_->divide(all);
    while (service_->has_news()) service_->divide(false);
  }

  static constexpr const char* kCounter = "shop|api|all|user=a";
  testing::ManualClock clock_{Instant{std::chrono::hours{365 * 24}}};
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
  server::Log log_{{.level = server::LogLevel::kOff}};
  server::QuotaConfig config_;
  const QuotaOptions options_{.domain = {}, .fallback = QuotaFallback::kDeny};
  std::unique_ptr<server::RulesManager> rules_;
  std::unique_ptr<server::QuotaService> service_;
  std::vector<Zone> zones_;
  std::uint64_t steps_ = 0;
};

// Direct requests have taken all at first, so that parts always owe a unit now and then.
TEST_F(QuotaZonesTest, ZonesUseAllOfALimitThatGivesLessThanAUnitASecond) {
  for (const auto& [algorithm, least] : {std::pair{"token_bucket", 0.99},
                                         {"gcra", 0.99},
                                         {"sliding_window_log", 0.98},
                                         {"sliding_window_hybrid", 0.95},
                                         {"fixed_window", 0.98},
                                         {"sliding_window_counter", 0.8}}) {
    for (const std::size_t zones : {1, 2, 3}) {
      start("limit: 30, per: 60s, algorithm: " + std::string(algorithm), zones);
      while (ask().allowed()) {
      }
      run(3min);
      const double used = static_cast<double>(run(10min)) / 300;
      EXPECT_GE(used, least) << algorithm << ", " << zones;
      EXPECT_LE(used, 1.01) << algorithm << ", " << zones;
      clock_.advance(1h);
    }
  }
}

TEST_F(QuotaZonesTest, ABucketThatIsNewDuringABlockHasItsPartAfterTheBlock) {
  start("algorithm: token_bucket, limit: 10, per: 1s, block: { after: 3, within: 10s, for: 8s }", 1,
        true);
  while (ask().reason != Reason::kBlocked) {
  }
  EXPECT_EQ(run(7s), 0U);
  EXPECT_GE(run(10s), 20U);
}

TEST_F(QuotaZonesTest, ZonesUseALimitAtOnceWhosePeriodIsShorterThanBefore) {
  start("algorithm: token_bucket, limit: 1000, per: 24h", 1);
  run(100s);
  change("algorithm: token_bucket, limit: 10, per: 1s");
  EXPECT_GE(run(10s), 30U);
}

// Direct requests take all, so that much is owed of the limit as it was.
TEST_F(QuotaZonesTest, ZonesUseALimitThatIsMuchLowerThanBefore) {
  start("algorithm: token_bucket, limit: 20, per: 1s", 3);
  for (int i = 0; i < 600; ++i) {
    run(100ms);
    while (ask().allowed()) {
    }
  }
  change("algorithm: token_bucket, limit: 1, per: 1s");
  EXPECT_GE(run(30s), 15U);
}

// Of many buckets, the client reports the first half no more.
TEST_F(QuotaZonesTest, CountersThatAClientReportsNoLongerLeaveRoomForNewOnes) {
  constexpr int kMost = server::QuotaService::kMostBuckets;
  start("algorithm: token_bucket, limit: 10, per: 1s", 0);
  std::set<std::string> assigned, abandoned;
  service_->open(1, std::string(server::kCounterDomain), "10.0.0.1", [&](const auto& orders) {
    for (const server::BucketOrder& order : orders) {
      (order.assignment ? assigned : abandoned).insert(order.bucket);
    }
  });
  const auto report = [&](int first, int end) {
    std::vector<server::BucketReport> reports;
    for (int i = first; i < end; ++i) {
      const std::string counter = "shop|api|all|user=" + std::to_string(i);
      reports.push_back(
          {.bucket = counter, .attributes = {{"counter", counter}}, .elapsed = 1s, .allowed = 1});
    }
    service_->report(1, std::move(reports));
    divide(false);
  };
  for (int i = 0; i < 8; ++i) {
    report(i < 2 ? 0 : kMost / 2, kMost);
    clock_.advance(1s);
    divide(true);
  }
  report(kMost, kMost + kMost / 4);
  EXPECT_EQ(assigned.size(), kMost + kMost / 4);
  EXPECT_EQ(abandoned.size(), kMost / 4);
  EXPECT_FALSE(abandoned.contains("shop|api|all|user=" + std::to_string(kMost / 2)));
}

}  // namespace
}  // namespace sluice::quota_simulation
