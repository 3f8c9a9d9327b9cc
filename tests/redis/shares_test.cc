// The script that divides a limit of quotas among servers, and the model of it in the simulation of
// quotas, give the same answers.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>

#include "server/api/quota/quota_server.h"
#include "server/net/fiber.h"
#include "sluice/limit.h"
#include "tests/redis/client_probe.h"
#include "tests/redis/redis_server.h"
#include "tests/simulation/shares_model.h"
#include "tests/support/random_cases.h"

namespace sluice_redis {
namespace {

using Model = sluice::quota_simulation::SharesModel;
using sluice::quota::kWhole;
using std::chrono::milliseconds;

constexpr std::string_view kPrefix = "test:";

struct Job : sluice::server::net::FiberJob {
  explicit Job(std::function<void()> what)
      : FiberJob{std::move(what), [this] { is_done = true; }} {}

  bool is_done = false;
};

class RedisSharesTest : public ::testing::Test {
 protected:
  static RedisServer& server() {
    static RedisServer server;
    return server;
  }
  RedisSharesTest() {
    redis_.run({"FLUSHALL"});
    probe_.run_until_ready();
  }

  std::optional<Model::Share> claim(const std::string& name, const std::string& key,
                                    const sluice::quota::Claim& asked, std::uint64_t held,
                                    milliseconds ttl, std::uint64_t most_weight = 1024) {
    std::optional<Model::Share> share;
    Job job([&] {
      const auto claim_share = sluice::server::claim_in_redis(
          [this] { return probe_.client.get(); }, std::string(kPrefix), name);
      share = claim_share({key, sluice::token_bucket(1).per(std::chrono::seconds(1)), 0}, asked,
                          most_weight, held, ttl);
    });
    EXPECT_TRUE(fibers_.run(job));
    probe_.run_until("the claim is answered", [&] { return job.is_done; });
    return share;
  }

  // What the script has written of a counter.
  Model stored(const std::string& key) {
    Model out;
    const std::string name_of_key = std::string(kPrefix) + "q{}" + key;
    std::istringstream text(RedisConnection::text(redis_.run({"GET", name_of_key})));
    std::string name;
    for (Model::Kept one{}; text >> name >> one.asked >> one.keeps >> one.until;) {
      const std::size_t star = name.find('*');
      one.weight = std::stoull(name.substr(star + 1));
      out.all[name.substr(0, star)] = one;
    }
    return out;
  }

  RedisConnection redis_{server()};
  Probe probe_{{.url = server().url()}};
  sluice::server::net::FiberPool fibers_{{.most = 1}};
};

std::uint64_t amount(std::mt19937_64& random) {
  const std::array<std::uint64_t, 8> some{
      0, 1, kWhole / 3, kWhole / 2, kWhole - 1, kWhole, random() % (kWhole + 1), random() % 1000};
  return some[random() % some.size()];
}

// The time of Redis cannot be set: the script has written it, as the time to live of a claim. The
// model then decides at the same millisecond. `anchor` keeps the text while other claims end.
TEST_F(RedisSharesTest, TheScriptAndTheModelOfTheSimulationGiveTheSameShares) {
  std::mt19937_64 random(11);
  std::map<std::string, Model> models;
  std::size_t expired = 0;
  std::size_t partial = 0;
  std::size_t has_more = 0;
  const std::size_t claims = sluice::testing::random_cases(2'000, 20'000);
  for (std::size_t i = 0; i < claims; ++i) {
    const std::string key = "counter-" + std::to_string(random() % 3);
    Model& model = models[key];
    const bool is_anchor = !model.all.contains("anchor") || random() % 64 == 0;
    const std::string name = is_anchor ? "anchor" : "server-" + std::to_string(random() % 6);
    const std::array<std::uint64_t, 4> weights{1, 1024, 3072, 1 + random() % 10'000'000'000};
    const sluice::quota::Claim asked{.asked = is_anchor ? 0 : amount(random),
                                     .weight = weights[random() % weights.size()]};
    // What it was given before, or more: of parts from before its claim had ended.
    const auto before = model.all.find(name);
    const std::uint64_t kept = before != model.all.end() ? before->second.keeps : 0;
    const std::uint64_t held = random() % 4 == 0 ? amount(random) : random() % (kept + 1);
    const std::array<milliseconds, 4> times{milliseconds(0), milliseconds(random() % 20),
                                            milliseconds(1000), milliseconds(3'600'000)};
    const milliseconds ttl = is_anchor ? times[3] : times[random() % times.size()];

    const std::uint64_t most_weight = std::max(asked.weight, weights[random() % weights.size()]);

    const auto share = claim(name, key, asked, held, ttl, most_weight);
    ASSERT_TRUE(share) << i;
    const Model after = stored(key);
    ASSERT_TRUE(after.all.contains(name)) << i;
    const std::int64_t now = after.all.at(name).until - ttl.count();
    for (const auto& [other, one] : model.all) expired += one.until <= now ? 1 : 0;
    ASSERT_EQ(*share, model.claim(name, asked, most_weight, held, ttl.count(), now)) << i;
    ASSERT_EQ(after.all, model.all) << i;
    partial += share->part > 0 && share->part < asked.asked ? 1 : 0;
    has_more += share->most > share->part ? 1 : 0;
  }
  EXPECT_GT(expired, claims / 10);
  EXPECT_GT(partial, claims / 10);
  EXPECT_GT(has_more, claims / 10);
}

TEST_F(RedisSharesTest, DividesByWeightWhatOthersDoNotAskFor) {
  const auto hour = std::chrono::hours(1);
  for (int round = 0; round < 3; ++round) {
    claim("small", "counter", {.asked = kWhole / 5, .weight = 1024}, 0, hour);
    const auto three = claim("three", "counter", {.asked = kWhole, .weight = 3072}, 0, hour);
    const auto one = claim("one", "counter", {.asked = kWhole, .weight = 1024}, 0, hour);
    if (round < 2) continue;  // the first servers have had all until then
    EXPECT_NEAR(static_cast<double>(three->part), 0.6 * kWhole, 2);
    EXPECT_NEAR(static_cast<double>(one->part), 0.2 * kWhole, 2);
  }
}

TEST_F(RedisSharesTest, GoOnWhileTheMemoryOfRedisIsFullWhereSomeAreThere) {
  const auto hour = std::chrono::hours(1);
  ASSERT_TRUE(claim("a", "counter", {.asked = kWhole / 2}, 0, hour));
  redis_.run({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(claim("b", "counter", {.asked = kWhole / 2}, 0, hour).value().part, kWhole / 2);
  EXPECT_FALSE(claim("a", "new", {.asked = kWhole / 2}, 0, hour));
  redis_.run({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(stored("counter").all.size(), 2U);
}

// A server of an older version has written its line.
TEST_F(RedisSharesTest, AServerWithoutAWeightCountsAsOneProxy) {
  redis_.run({"SET", std::string(kPrefix) + "q{}counter",
              "old " + std::to_string(kWhole) + " 0 99999999999999"});
  const auto share = claim("new", "counter", {.asked = kWhole, .weight = 3072}, 0, milliseconds(0));
  EXPECT_EQ(share->part, kWhole / 4 * 3);
}

TEST_F(RedisSharesTest, ServersThatAskForAllHaveTheWholeTogether) {
  for (int round = 0; round < 3; ++round) {
    std::uint64_t sum = 0;
    for (const char* const name : {"a", "b", "c"}) {
      sum += claim(name, "counter", {.asked = kWhole}, 0, std::chrono::hours(1)).value().part;
    }
    EXPECT_EQ(sum, kWhole) << round;
  }
}

}  // namespace
}  // namespace sluice_redis
