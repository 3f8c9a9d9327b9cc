#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/redis_store.h"
#include "tests/redis/redis_cluster.h"
#include "tests/redis/redis_server.h"
#include "tests/support/wait_until.h"

// Tests of the library's store with real servers.
namespace sluice_redis {

// A deadline that every answer meets, even on a busy machine.
inline sluice::RedisOptions patient(const std::string& url, int protocol = 0) {
  sluice::RedisOptions options;
  options.url = url;
  options.protocol = protocol;
  options.deadline = options.connect_timeout = sluice::testing::kPatience;
  return options;
}

inline std::unique_ptr<sluice::RedisStore> open_ready(const sluice::RedisOptions& options,
                                                      sluice::StoreObserver* observer = nullptr) {
  auto store = sluice::RedisStore::open(options, observer).value();
  const auto ready = store->wait_until_ready(sluice::testing::kPatience);
  EXPECT_TRUE(ready) << ready.error();
  return store;
}

inline void flush(RedisServer& server) { RedisConnection(server).run({"FLUSHALL"}); }
inline void flush(RedisCluster& cluster) {
  for (std::size_t i = 0; i < cluster.size(); ++i) flush(cluster.node(i));
}

inline void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(body, t);
  for (std::thread& thread : threads) thread.join();
}

inline sluice::Instant at(std::int64_t microseconds) {
  return sluice::Instant{sluice::Duration{microseconds}};
}

}  // namespace sluice_redis
