// A throttle of outgoing requests whose limit and stops are in Redis.

#include "sluice/client_throttle.h"

#include "sluice/limit_builder.h"
#include "tests/redis/store_test.h"

namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::ClientThrottle;
using sluice::Duration;

constexpr sluice::Limit kThree = sluice::token_bucket(3).per(366 * 24h);

// Two programs, each with its own store.
void check_two_programs(const std::string& url) {
  const auto first = open_ready(patient(url)), second = open_ready(patient(url));
  ClientThrottle one(*first, "maps", kThree), other(*second, "maps", kThree);
  EXPECT_TRUE(one.try_send());
  one.record({.status = 429, .retry_after = "3000"});
  other.record({.status = 503, .retry_after = "2000"});
  for (int i = 0; i < 2; ++i) {
    const auto denied = ClientThrottle(*second, "maps", kThree).try_send();
    ASSERT_TRUE(denied.retry_after);
    EXPECT_LE(*denied.retry_after, Duration(3000s));
    EXPECT_GT(*denied.retry_after, Duration(2400s)) << "the longest of both, and not their sum";
  }

  ClientThrottle third(*first, "mail", kThree), fourth(*second, "mail", kThree);
  third.record({.rate_limit = R"("minute";r=0;t=1)"});
  // On a slow machine the second is over, and the request is the first of two.
  const std::uint64_t rest = fourth.try_send() ? 1 : 2;
  EXPECT_TRUE(fourth.wait_to_send(1min, rest));
  EXPECT_TRUE(third.wait_to_send(1min)) << "a try during the stop took nothing";
  EXPECT_FALSE(fourth.try_send());
}

TEST(ClientThrottle, SharesItsLimitAndStopsThroughRedis) {
  RedisServer server;
  check_two_programs(server.url());
}

TEST(ClientThrottle, SharesItsLimitAndStopsThroughACluster) {
  RedisCluster cluster;
  check_two_programs(cluster.url());
}

}  // namespace
}  // namespace sluice_redis
