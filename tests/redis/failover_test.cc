// The clients of a cluster and of Sentinels after a master was killed, paused or replaced by hand.
// The servers find that in real time, and then vote. Tests of everything else do not depend on
// their pace.

#include <gtest/gtest.h>

#include <string>

#include "tests/redis/client_probe.h"
#include "tests/redis/cluster_client.h"
#include "tests/redis/redis_cluster.h"
#include "tests/redis/redis_sentinels.h"

namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::redis::slot_of;
using sluice::testing::kPatience;
using sluice::testing::wait_until;

// --- Sentinels ----------------------------------------------------------------------------------

class SentinelFailover : public ::testing::Test {
 protected:
  SentinelFailover() {
    options.url = watched.url();
    options.deadline = 500ms;
  }
  void expect_a_master(Probe& probe) {
    probe.run_until("the client's server is a master", [&] {
      return probe.ask({"INFO", "replication"}).find("role:master") != std::string::npos;
    });
  }

  Watched watched{700};
  sluice::RedisOptions options;
};

TEST_F(SentinelFailover, NamesAnotherMasterAfterTheMasterIsKilled) {
  Probe probe(options);
  probe.ask_until_answered({"SET", "key", "1"});
  watched.servers[0]->kill_now();
  probe.run_until_saw("topology_changed");
  probe.ask_until_answered({"SET", "key", "2"});
  expect_a_master(probe);
  EXPECT_EQ(probe.client->stats().connected, 1u);
}

TEST_F(SentinelFailover, MovesTheMasterWhileTheOldOneIsPaused) {
  Probe probe(options);
  probe.ask_until_answered({"SET", "key", "1"});
  watched.servers[0]->pause();
  probe.run_until_saw("topology_changed");
  probe.ask_until_answered({"SET", "key", "2"});
  watched.servers[0]->resume();  // acts as a master until the Sentinels demote it
  probe.ask_until_answered({"SET", "key", "3"});
  expect_a_master(probe);
}

// --- clusters -----------------------------------------------------------------------------------

class ClusterFailover : public ::testing::Test {
 protected:
  // Waits until another server than `victim` serves the key, according to `witness`. Returns it.
  std::size_t wait_for_promotion(const std::string& key, std::size_t victim, std::size_t witness) {
    std::size_t master = victim;
    wait_until("a replica is promoted", [&] {
      master = cluster.master_of(slot_of(key), witness);
      return master != victim && cluster.is_master(master);
    });
    return master;
  }

  RedisCluster cluster{3, 1, {"--cluster-node-timeout", "1500"}};
  ClusterCaller caller{cluster.url(), 500ms};
};

TEST_F(ClusterFailover, UsesThePromotedReplicaAfterAMasterIsKilled) {
  const std::string lost = keys_in(0, 5460, 1).front();
  const std::string kept = keys_in(10923, 16383, 1).front();
  Load load(caller, {lost, kept});
  advance(load, lost);
  advance(load, kept);
  const std::size_t victim = cluster.master_of(slot_of(lost));
  const std::size_t witness = cluster.master_of(slot_of(kept));
  cluster.node(victim).kill_now();
  wait_for_promotion(lost, victim, witness);
  advance(load, lost);
  advance(load, kept);
  load.stop();
  for (const Load::Count& count : load.counts()) {
    if (count.key == kept) {
      expect_exact(cluster, count, witness);
    } else {  // unreplicated units are lost; nothing is counted twice
      EXPECT_GT(count.refused + count.unknown, 0u);
      EXPECT_LE(static_cast<std::uint64_t>(stored(cluster, lost, witness)),
                count.done + count.unknown);
    }
  }
}

TEST_F(ClusterFailover, UsesThePromotedReplicaEvenAfterThePausedMasterResumes) {
  const std::string key = keys_in(0, 5460, 1).front();
  Load load(caller, {key});
  advance(load, key);
  const std::size_t victim = cluster.master_of(slot_of(key));
  const std::size_t witness = cluster.master_of(16383);
  cluster.node(victim).pause();
  const std::size_t promoted = wait_for_promotion(key, victim, witness);
  advance(load, key);
  cluster.node(victim).resume();
  wait_until("the old master is a replica", [&] { return !cluster.is_master(victim); });
  advance(load, key);
  load.stop();
  const Load::Count count = load.counts().front();
  EXPECT_LE(static_cast<std::uint64_t>(stored(cluster, key, promoted)), count.done + count.unknown);
}

TEST(RedisClusterClient, FollowsAManualFailoverWithoutLosingACommand) {
  RedisCluster cluster(3, 1);
  ClusterCaller caller(cluster.url(), kPatience);
  const std::string key = keys_in(0, 5460, 1).front();
  Load load(caller, {key});
  advance(load, key);
  const std::size_t before = cluster.master_of(slot_of(key));
  std::size_t replica = 0;
  while (cluster.is_master(replica) ||
         cluster.text(replica, {"INFO", "replication"})
                 .find("master_port:" + std::to_string(cluster.port(before))) ==
             std::string::npos) {
    ++replica;
  }
  cluster.run(replica, {"CLUSTER", "FAILOVER"});
  wait_until("the replica is master",
             [&] { return cluster.is_master(replica) && !cluster.is_master(before); });
  advance(load, key);
  load.stop();
  const Load::Count count = load.counts().front();
  EXPECT_EQ(count.unknown, 0u) << count.why;
  expect_exact(cluster, count, replica);
}

}  // namespace
}  // namespace sluice_redis
