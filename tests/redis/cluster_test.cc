// The client with real Redis Clusters, while slots move and servers fail.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/redis/cluster_client.h"
#include "tests/redis/redis_cluster.h"

namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::StoreEventKind;
using sluice::redis::slot_of;
using sluice::testing::kPatience;
using sluice::testing::wait_until;

TEST(RedisClusterClient, AsksTheMasterOfEachSlotAndMakesAConnectionToEach) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  for (const std::string& key : keys_in(0, 16383, 200)) {
    EXPECT_EQ(caller.count({key}).number, 1) << key;
    EXPECT_EQ(stored(cluster, key), 1) << key;
  }
  EXPECT_TRUE(caller.is_ready());
  const sluice::RedisStoreStats stats = caller.stats();
  EXPECT_EQ(stats.redirects, 0u);
  EXPECT_EQ(stats.errors, 0u);
  EXPECT_EQ(stats.connected, 3u);
  EXPECT_EQ(stats.scripts_sent, 3u);
  EXPECT_EQ(stats.pending, 0u);
  EXPECT_EQ(caller.events.of(StoreEventKind::kTopologyChanged), 1u);
}

TEST(RedisClusterClient, FindsTheClusterByAnySeedThatAnswers) {
  RedisCluster cluster;
  cluster.node(0).kill_now();
  const std::string dead = "127.0.0.1:" + std::to_string(cluster.port(0));
  const std::string alive = "127.0.0.1:" + std::to_string(cluster.port(1));
  ClusterCaller caller("redis+cluster://" + dead + "," + alive, kPatience);
  EXPECT_EQ(caller.run({"PING"}, std::nullopt).text, "PONG");
}

TEST(RedisClusterClient, RefusesCommandsAtOnceWhileNoServerAnswersAndRecovers) {
  RedisCluster cluster;
  for (std::size_t i = 0; i < 3; ++i) cluster.node(i).kill_now();
  ClusterCaller caller(cluster.url(), kPatience);
  wait_until("a command is refused", [&] {
    const Outcome outcome = caller.count({"a"});
    return outcome.failure == Failure::kUnavailable && !outcome.text.empty();
  });
  EXPECT_NE(caller.why(), "");
  for (std::size_t i = 0; i < 3; ++i) cluster.node(i).start();
  wait_until("a command is answered",
             [&] { return caller.count({"a"}).failure == Failure::kNone; });
}

TEST(RedisClusterClient, ExecutesEachCommandOnceWhileSlotsMove) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  const std::vector<std::string> keys = keys_in(0, 199, 32);  // the first to be moved
  Load load(caller, keys);
  advance(load, keys.front());
  const std::string first = "127.0.0.1:" + std::to_string(cluster.port(0));
  RedisCluster::cli("--cluster reshard " + first + " --cluster-from " + cluster.id(0) +
                    " --cluster-to " + cluster.id(1) + " --cluster-slots 200 --cluster-yes");
  for (const std::string& key : keys) advance(load, key);
  load.stop();
  for (const Load::Count& count : load.counts()) {
    EXPECT_EQ(count.refused + count.unknown, 0u) << count.key << ": " << count.why;
    EXPECT_EQ(cluster.master_of(slot_of(count.key)), 1u);
    expect_exact(cluster, count);
  }
  EXPECT_GT(caller.stats().redirects, 0u);
  EXPECT_GT(caller.events.of(StoreEventKind::kTopologyChanged), 1u);
}

TEST(RedisClusterClient, KnowsAllMovedSlotsSoonAfterTheFirstMoved) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  const std::vector<std::string> keys = keys_in(0, 4999, 100);
  EXPECT_EQ(caller.count({keys.front()}).number, 1);
  for (const std::string& key : keys) {
    const int slot = slot_of(key);
    cluster.begin_move(slot, 0, 2);
    if (key == keys.front()) cluster.move_key(key, 0, 2);
    cluster.end_move(slot, 0, 2);
  }
  wait_until("all have heard of it", [&] {
    for (const std::string& key : keys) {
      if (cluster.master_of(slot_of(key), 1) != 2) return false;
    }
    return true;
  });
  EXPECT_EQ(caller.count({keys.front()}).number, 2);
  EXPECT_EQ(caller.stats().redirects, 1u);
  wait_until("the client has the new slots",
             [&] { return caller.events.of(StoreEventKind::kTopologyChanged) == 2; });
  for (const std::string& key : keys) EXPECT_EQ(caller.count({key}).failure, Failure::kNone) << key;
  EXPECT_EQ(caller.stats().redirects, 1u);
}

TEST(RedisClusterClient, FollowsAskForEachCommandWhileASlotMoves) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  const std::string here = "here{t}";
  const std::string fresh = "fresh{t}";
  const int slot = slot_of(here);
  const std::size_t from = cluster.master_of(slot);
  const std::size_t to = (from + 1) % 3;
  EXPECT_EQ(caller.count({here}).number, 1);
  cluster.begin_move(slot, from, to);
  EXPECT_EQ(caller.count({here}).number, 2);  // this key has not moved yet
  EXPECT_EQ(caller.stats().redirects, 0u);
  EXPECT_EQ(caller.count({fresh}).number, 1);  // this key is created on the new server
  EXPECT_EQ(caller.count({fresh}).number, 2);
  EXPECT_EQ(caller.stats().redirects, 2u);
  cluster.move_key(here, from, to);
  EXPECT_EQ(caller.count({here}).number, 3);
  EXPECT_EQ(caller.stats().redirects, 3u);
  cluster.end_move(slot, from, to);
  EXPECT_EQ(caller.count({here}).number, 4);
  EXPECT_EQ(caller.stats().redirects, 4u);
  EXPECT_EQ(caller.count({here, fresh}).number, 3);
  EXPECT_EQ(caller.stats().errors, 0u);
}

// Ends the move of a slot whose keys are on two servers, while a request uses both keys.
TEST(RedisClusterClient, WaitsAfterTryAgainUntilAllKeysAreOnOneServer) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  const int slot = slot_of("a{t}");
  const std::size_t from = cluster.master_of(slot);
  const std::size_t to = (from + 1) % 3;
  EXPECT_EQ(caller.count({"a{t}", "b{t}"}).number, 1);
  cluster.begin_move(slot, from, to);
  cluster.move_key("a{t}", from, to);
  std::thread mover([&] {
    std::this_thread::sleep_for(200ms);
    cluster.move_key("b{t}", from, to);
    cluster.end_move(slot, from, to);
  });
  const Outcome outcome = caller.count({"a{t}", "b{t}"});
  mover.join();
  EXPECT_EQ(outcome.failure, Failure::kNone) << outcome.text;
  EXPECT_EQ(outcome.number, 2);
  EXPECT_EQ(stored(cluster, "a{t}"), 2);
  EXPECT_EQ(stored(cluster, "b{t}"), 2);
}

TEST(RedisClusterClient, EndsWithTryAgainIfTheKeysStayOnTwoServers) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), 300ms);
  const int slot = slot_of("a{t}");
  const std::size_t from = cluster.master_of(slot);
  const std::size_t to = (from + 1) % 3;
  // A request that timed out may be counted later, so these two are made by a patient caller, and
  // the other one becomes ready by a key of its own.
  ClusterCaller patient(cluster.url(), kPatience);
  ASSERT_EQ(patient.count({"a{t}"}).failure, Failure::kNone);
  ASSERT_EQ(patient.count({"b{t}"}).failure, Failure::kNone);
  wait_until("a command is answered",
             [&] { return caller.count({"c{t}"}).failure == Failure::kNone; });
  const long long a = stored(cluster, "a{t}");
  const long long b = stored(cluster, "b{t}");
  cluster.begin_move(slot, from, to);
  cluster.move_key("a{t}", from, to);
  // On a busy machine the last attempt may be in progress at the deadline.
  Outcome outcome;
  wait_until("no attempt is in progress at the deadline", [&] {
    outcome = caller.count({"a{t}", "b{t}"});
    return outcome.failure == Failure::kError;
  });
  EXPECT_TRUE(outcome.text.starts_with("TRYAGAIN")) << outcome.text;
  for (const char* key : {"b{t}", "c{t}"}) cluster.move_key(key, from, to);
  cluster.end_move(slot, from, to);
  EXPECT_EQ(stored(cluster, "a{t}"), a);
  EXPECT_EQ(stored(cluster, "b{t}"), b);
}

TEST(RedisClusterClient, EndsWithTheErrorOfKeysInSeveralSlots) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  const Outcome outcome = caller.count({"a{t}", "b{u}"});
  EXPECT_EQ(outcome.failure, Failure::kError);
  EXPECT_TRUE(outcome.text.starts_with("CROSSSLOT")) << outcome.text;
  EXPECT_EQ(caller.events.of(StoreEventKind::kRequestFailed), 1u);
}

TEST(RedisClusterClient, ReturnsAnErrorWhileNoServerServesASlotAndRecovers) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  const std::string slot = std::to_string(slot_of("a{t}"));
  const std::size_t owner = cluster.master_of(slot_of("a{t}"));
  EXPECT_EQ(caller.count({"a{t}"}).number, 1);
  cluster.run(owner, {"CLUSTER", "DELSLOTS", slot});
  const Outcome outcome = caller.count({"a{t}"});
  EXPECT_EQ(outcome.failure, Failure::kError);
  EXPECT_TRUE(outcome.text.starts_with("CLUSTERDOWN")) << outcome.text;
  cluster.run(owner, {"CLUSTER", "ADDSLOTS", slot});
  wait_until("a command is answered",
             [&] { return caller.count({"a{t}"}).failure == Failure::kNone; });
}

TEST(RedisClusterClient, AnswersByTheDeadlineWhileAServerIsPausedAndRecovers) {
  RedisCluster cluster(3, 0,
                       {"--cluster-require-full-coverage", "no", "--cluster-node-timeout", "1500"});
  ClusterCaller caller(cluster.url(), 200ms);
  const std::string still = keys_in(0, 5460, 1).front();
  const std::string other = keys_in(10923, 16383, 1).front();
  Load load(caller, {still, other});
  advance(load, still);
  advance(load, other);
  const std::size_t stopped = cluster.master_of(slot_of(still));
  const std::size_t witness = cluster.master_of(slot_of(other));
  cluster.node(stopped).pause();
  for (int i = 0; i < 20; ++i) EXPECT_NE(caller.count({still}).failure, Failure::kNone);
  advance(load, other);
  wait_until("the cluster treats the server as failed", [&] {
    const std::string info = cluster.text(witness, {"CLUSTER", "INFO"});
    return info.find("cluster_slots_fail:0\r") == std::string::npos;
  });
  advance(load, other);
  cluster.node(stopped).resume();
  advance(load, still);
  advance(load, other);
  load.stop();
  for (Load::Count count : load.counts()) {
    if (count.key == still) count.unknown += 20;  // units taken outside of the load
    expect_exact(cluster, count, witness);
  }
}

TEST(RedisClusterClient, ConnectsAgainToAMasterThatHasRestarted) {
  RedisCluster cluster;
  ClusterCaller caller(cluster.url(), kPatience);
  const std::string key = keys_in(0, 5460, 1).front();
  EXPECT_EQ(caller.count({key}).number, 1);
  const std::size_t master = cluster.master_of(slot_of(key));
  cluster.node(master).kill_now();
  cluster.node(master).start();
  wait_until("a command is answered",
             [&] { return caller.count({key}).failure == Failure::kNone; });
  EXPECT_GE(caller.events.of(StoreEventKind::kConnectionLost), 1u);
}

}  // namespace
}  // namespace sluice_redis
