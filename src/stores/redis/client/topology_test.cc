#include "stores/redis/client/clients.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stores/redis/client/test_slot_map.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

const ServerAddress kA{"10.0.0.1", 7000};
const ServerAddress kB{"10.0.0.2", 7000};
const ServerAddress kC{"10.0.0.3", 7000};

class TopologyTest : public ::testing::Test {
 protected:
  struct Asked {
    ServerAddress address;
    std::uint64_t question = 0;
  };
  // Each wait is the shortest that may be drawn.
  Topology make(std::vector<ServerAddress> seeds) {
    return Topology(std::move(seeds), 20ms, 100ms, [] { return 0; });
  }
  // The server that is asked now.
  Asked ask(Topology& topology) {
    const ServerAddress* const server = topology.to_ask(now_);
    EXPECT_NE(server, nullptr);
    return server == nullptr ? Asked() : Asked{*server, topology.question()};
  }
  Time wait(Topology& topology) {
    EXPECT_EQ(topology.to_ask(now_), nullptr);
    return topology.ask_again_at();
  }
  static SlotMap half_map(std::string_view host) {
    return *read_map({range(0, 8191, {node(host, 7000)})});
  }
  static SlotMap two_masters() {
    return *read_map({range(0, 8191, {node(kA.host, 7000), node(kC.host, 7000)}),
                      range(8192, 16383, {node(kB.host, 7000)})});
  }

  Time now_{1000s};
};

TEST_F(TopologyTest, AsksTheFirstSeedAtOnceAndThenWaitsIfTheMapIsComplete) {
  Topology topology = make({kA, kB});
  const auto question = ask(topology);
  EXPECT_EQ(question.address, kA);
  EXPECT_FALSE(topology.is_known());
  EXPECT_TRUE(topology.answered(question.question, whole_map("10.0.0.9"), now_));
  EXPECT_TRUE(topology.is_known());
  EXPECT_EQ(wait(topology), now_ + 30s);  // half of the longest interval
}

TEST_F(TopologyTest, AsksTheNextServerAtOnceIfOneFails) {
  Topology topology = make({kA, kB});
  EXPECT_FALSE(topology.failed(ask(topology).question, "refused", now_));
  EXPECT_FALSE(topology.is_failing());
  EXPECT_EQ(ask(topology).address, kB);
}

TEST_F(TopologyTest, AsksTheNextServerIfOneIsSilentAndUsesTheFirstAnswer) {
  Topology topology = make({kA, kB});
  const auto first = ask(topology);
  EXPECT_EQ(wait(topology), now_ + Topology::kPatience);
  now_ += Topology::kPatience;
  const auto second = ask(topology);
  EXPECT_EQ(second.address, kB);
  EXPECT_EQ(wait(topology), Time::max());  // there is no other server
  EXPECT_TRUE(topology.answered(second.question, whole_map("10.0.0.9"), now_));
  EXPECT_FALSE(topology.answered(first.question, whole_map("10.0.0.8"), now_));  // too late
  EXPECT_EQ(topology.map().masters().front().host, "10.0.0.9");
}

TEST_F(TopologyTest, AsksAtMostThreeServersAtOnce) {
  Topology topology = make({kA, kB, kC, {"10.0.0.4", 1}});
  for (int i = 0; i < 3; ++i, now_ += Topology::kPatience) ask(topology);
  EXPECT_EQ(wait(topology), Time::max());
}

TEST_F(TopologyTest, WaitsLongerAfterEachRoundWithoutAnAnswer) {
  Topology topology = make({kA});
  for (const auto backoff : {10ms, 20ms, 40ms, 50ms, 50ms}) {
    topology.failed(ask(topology).question, "refused", now_);
    EXPECT_TRUE(topology.is_failing());
    EXPECT_EQ(topology.why(), "refused");
    topology.hint(now_);  // does not make it sooner
    EXPECT_EQ(wait(topology), now_ + backoff);
    now_ += backoff;
  }
  topology.answered(ask(topology).question, whole_map("10.0.0.9"), now_);
  EXPECT_FALSE(topology.is_failing());
}

TEST_F(TopologyTest, BeginsEachRoundWithAnotherSeed) {
  Topology topology = make({kA, kB});
  topology.failed(ask(topology).question, "", now_);
  topology.failed(ask(topology).question, "", now_);
  now_ += 1s;
  EXPECT_EQ(ask(topology).address, kB);
}

TEST_F(TopologyTest, AsksSoonAfterAHintButNotTooOften) {
  Topology topology = make({kA});
  topology.answered(ask(topology).question, whole_map("10.0.0.1"), now_);
  topology.hint(now_);
  EXPECT_EQ(wait(topology), now_ + 50ms);  // half of the shortest interval
  now_ += 50ms;
  const auto second = ask(topology);
  topology.answered(second.question, whole_map("10.0.0.1"), now_);
  now_ += 10s;
  topology.hint(now_);
  EXPECT_EQ(ask(topology).address, kA);
}

TEST_F(TopologyTest, AsksAgainIfAHintArrivedDuringTheRound) {
  Topology topology = make({kA});
  const auto question = ask(topology);
  EXPECT_EQ(topology.hint(now_), Time::max());
  topology.answered(question.question, whole_map("10.0.0.1"), now_);
  EXPECT_EQ(wait(topology), now_ + 50ms);
}

TEST_F(TopologyTest, AsksReachableServersThenKnownOnesThenSeeds) {
  const ServerAddress seed{"seed.example", 7000};
  Topology topology = make({seed});
  topology.answered(ask(topology).question, two_masters(), now_);
  topology.set_reachable(kB, true);
  topology.hint(now_);
  now_ += 1s;
  std::vector<ServerAddress> asked;
  for (int i = 0; i < 4; ++i) {
    const auto question = ask(topology);
    asked.push_back(question.address);
    topology.failed(question.question, "", now_);
  }
  EXPECT_EQ(asked.front(), kB);
  for (const ServerAddress& each : {kA, kC, seed}) {
    EXPECT_EQ(std::count(asked.begin(), asked.end(), each), 1) << each.host;
  }
  EXPECT_TRUE(topology.is_failing());
}

TEST_F(TopologyTest, DoesNotPreferAServerThatIsNoLongerReachable) {
  Topology topology = make({kC});
  topology.set_reachable(kB, true);
  topology.set_reachable(kB, false);
  EXPECT_EQ(ask(topology).address, kC);
}

TEST_F(TopologyTest, UsesAnIncompleteMapAndAsksTheOtherServers) {
  Topology topology = make({kA, kB});
  EXPECT_TRUE(topology.answered(ask(topology).question, half_map("10.0.0.1"), now_));
  EXPECT_TRUE(topology.is_known());
  const auto second = ask(topology);
  EXPECT_EQ(second.address, kB);
  EXPECT_TRUE(topology.answered(second.question, whole_map("10.0.0.2"), now_));
  EXPECT_EQ(topology.map().covered(), kSlots);
}

TEST_F(TopologyTest, AsksTheOtherServersBeforeItForgetsSlots) {
  Topology topology = make({kA, kB});
  topology.answered(ask(topology).question, two_masters(), now_);
  topology.hint(now_);
  now_ += 1s;
  EXPECT_FALSE(topology.answered(ask(topology).question, half_map("10.0.0.1"), now_));
  EXPECT_EQ(topology.map().covered(), kSlots);
  EXPECT_FALSE(topology.failed(ask(topology).question, "", now_));
  EXPECT_TRUE(topology.failed(ask(topology).question, "", now_));  // all have been asked
  EXPECT_EQ(topology.map().covered(), 8192u);
  EXPECT_FALSE(topology.is_failing());
}

TEST_F(TopologyTest, ReportsANewMapOnlyIfASlotHasAnotherMaster) {
  Topology topology = make({kA});
  topology.answered(ask(topology).question, whole_map("10.0.0.1"), now_);
  now_ += 60s;
  EXPECT_FALSE(topology.answered(ask(topology).question, whole_map("10.0.0.1"), now_));
  now_ += 60s;
  EXPECT_TRUE(topology.answered(ask(topology).question, whole_map("10.0.0.2"), now_));
}

TEST_F(TopologyTest, ChangesASlotThatMovedAndReportsItWithTheNextMap) {
  Topology topology = make({kA});
  topology.answered(ask(topology).question, whole_map("10.0.0.1"), now_);
  topology.moved(7, kB);
  EXPECT_EQ(topology.map().masters().at(topology.map().owner_of(7)), kB);
  EXPECT_EQ(topology.hint(now_), now_ + 50ms);
  now_ += 50ms;
  SlotMap same = whole_map("10.0.0.1");
  same.move(7, kB);
  EXPECT_TRUE(topology.answered(ask(topology).question, same,
                                now_));  // it differs from the last map that was reported
}

TEST_F(TopologyTest, AsksASeedInEachRoundHoweverManyMastersTheMapNames) {
  const ServerAddress seed{"seed.example", 7000};
  Topology topology = make({seed});
  std::vector<std::string> ranges;
  for (int i = 0; i < 3000; ++i) {
    ranges.push_back(range(i, i == 2999 ? 16383 : i, {node("10.0.0." + std::to_string(i), 7000)}));
  }
  topology.answered(ask(topology).question, *read_map(ranges), now_);
  topology.hint(now_);
  for (int round = 0; round < 5; ++round) {
    now_ += 1s;
    std::vector<ServerAddress> asked;
    for (int i = 0; i < 16; ++i) {
      const auto question = ask(topology);
      asked.push_back(question.address);
      topology.failed(question.question, "", now_);
    }
    EXPECT_EQ(asked.back(), seed);
    wait(topology);
  }
}

TEST_F(TopologyTest, AsksAtMostSixteenServersInARoundAndOthersInTheNext) {
  std::vector<ServerAddress> seeds;
  for (std::uint16_t port = 1; port <= 20; ++port) seeds.push_back({"10.0.0.1", port});
  Topology topology = make(seeds);
  std::vector<bool> asked(21);
  for (int round = 0; round < 5; ++round, now_ += 1s) {
    for (int i = 0; i < 16; ++i) {
      const auto question = ask(topology);
      asked[question.address.port] = true;
      topology.failed(question.question, "", now_);
    }
    wait(topology);
  }
  EXPECT_EQ(std::count(asked.begin(), asked.end(), true), 20);
}

}  // namespace
}  // namespace sluice::redis
