#include "stores/redis/client/clients.h"

#include <gtest/gtest.h>

#include "stores/redis/client/test_slot_map.h"

namespace sluice::redis {
namespace {

ServerAddress owner(const SlotMap& map, std::uint16_t slot) {
  return map.masters().at(map.owner_of(slot));
}

TEST(SlotMap, KnowsTheMasterOfEachSlotAndItsReplicas) {
  const auto map = read_map({
      range(0, 5460, {node("10.0.0.1", 7000), node("10.0.0.4", 7003)}),
      range(5461, 16383, {node("10.0.0.2", 7001), node("10.0.0.4", 7003), node("10.0.0.5", 7004)}),
  });
  ASSERT_TRUE(map);
  EXPECT_EQ(owner(*map, 0), (ServerAddress{"10.0.0.1", 7000}));
  EXPECT_EQ(owner(*map, 5460), (ServerAddress{"10.0.0.1", 7000}));
  EXPECT_EQ(owner(*map, 5461), (ServerAddress{"10.0.0.2", 7001}));
  EXPECT_EQ(owner(*map, 16383), (ServerAddress{"10.0.0.2", 7001}));
  EXPECT_EQ(map->masters().size(), 2u);
  EXPECT_EQ(map->replicas(), (std::vector<ServerAddress>{{"10.0.0.4", 7003}, {"10.0.0.5", 7004}}));
  EXPECT_EQ(map->covered(), 16384u);
}

TEST(SlotMap, HasNoOwnerForASlotThatNoMasterServes) {
  const auto map = read_map({range(10, 19, {node("10.0.0.2", 7001)})});
  ASSERT_TRUE(map);
  EXPECT_EQ(map->owner_of(9), SlotMap::kNobody);
  EXPECT_EQ(map->owner_of(19), 0);
  EXPECT_EQ(map->owner_of(20), SlotMap::kNobody);
  EXPECT_EQ(map->covered(), 10u);
}

TEST(SlotMap, NamesOneSlotOfEachMasterThatServesAny) {
  const auto map = read_map({
      range(0, 99, {node("h", 7000)}),
      range(100, 199, {node("h", 7001)}),
      range(200, 299, {node("h", 7000)}),
      range(300, 399, {node("h", 7002)}),  // which the next range takes from it
      range(300, 399, {node("h", 7001)}),
  });
  ASSERT_TRUE(map);
  EXPECT_EQ(map->slot_of_each(), (std::vector<std::uint16_t>{0, 100}));
  EXPECT_EQ(owner(*map, 100), (ServerAddress{"h", 7001}));
}

TEST(SlotMap, KeepsEveryMasterAndSomeOfManyReplicas) {
  std::vector<std::string> ranges;
  for (int i = 0; i < 3000; ++i) {
    ranges.push_back(
        range(i, i,
              {node("m" + std::to_string(i), 7000), node("a" + std::to_string(i), 7000),
               node("b" + std::to_string(i), 7000)}));
  }
  const auto map = read_map(ranges);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->masters().size(), 3000u);
  EXPECT_EQ(owner(*map, 2999), (ServerAddress{"m2999", 7000}));
  EXPECT_EQ(map->find({"m1234", 7000}), 1234);
  EXPECT_EQ(map->find({"m1234", 7001}), SlotMap::kNobody);
  EXPECT_EQ(map->replicas().size(), SlotMap::kMostReplicas);
}

TEST(SlotMap, UsesTheHostOfTheSenderIfAnEntryHasNone) {
  const auto map = read_map({range(0, 9, {node("", 7001)}),
                             range(10, 19, {array({"$-1\r\n", number(7002), bulk("id")})})});
  ASSERT_TRUE(map);
  EXPECT_EQ(owner(*map, 0), (ServerAddress{"10.0.0.1", 7001}));
  EXPECT_EQ(owner(*map, 10), (ServerAddress{"10.0.0.1", 7002}));
}

TEST(SlotMap, DoesNotChangeHostNamesAndIPv6Addresses) {
  const auto map =
      read_map({range(0, 9, {node("a.example", 7001)}), range(10, 19, {node("::1", 7002)})});
  ASSERT_TRUE(map);
  EXPECT_EQ(owner(*map, 0), (ServerAddress{"a.example", 7001}));
  EXPECT_EQ(owner(*map, 10), (ServerAddress{"::1", 7002}));
}

TEST(SlotMap, UsesTheAddressOfAServerWhosePreferredNameIsUnknown) {
  const auto unknown = [](std::vector<std::string> fields) {
    return array({bulk("?"), number(7001), bulk("id"), array(fields)});
  };
  const auto map = read_map({range(0, 9, {unknown({bulk("ip"), bulk("10.0.0.7")})}),
                             range(10, 19, {unknown({bulk("port"), bulk("10.0.0.7")})})});
  ASSERT_TRUE(map);
  EXPECT_EQ(owner(*map, 0), (ServerAddress{"10.0.0.7", 7001}));
  EXPECT_EQ(map->owner_of(10), SlotMap::kNobody);  // the entry has no address
}

TEST(SlotMap, IsAnErrorIfNoSlotIsServed) {
  EXPECT_FALSE(read_map({}));
  EXPECT_FALSE(read_map({range(0, 9, {array({bulk("?"), number(7001)})})}));
  EXPECT_FALSE(read_map({range(0, 9, {node("10.0.0.1", 0)})}));
  EXPECT_FALSE(SlotMap::read(*TestReply("+OK\r\n"), {}));
}

TEST(SlotMap, IsAnErrorIfARangeIsMalformed) {
  const std::string good = node("10.0.0.1", 7000);
  EXPECT_FALSE(read_map({range(0, 16384, {good})}));
  EXPECT_FALSE(read_map({range(-1, 9, {good})}));
  EXPECT_FALSE(read_map({range(9, 8, {good})}));
  EXPECT_FALSE(read_map({range(0, 9, {})}));
  EXPECT_FALSE(read_map({range(0, 9, {bulk("10.0.0.1")})}));
  EXPECT_FALSE(read_map({bulk("0")}));
  EXPECT_FALSE(read_map({array({bulk("0"), number(9), good})}));
  EXPECT_FALSE(read_map({range(0, 9, {good}), number(1)}));
}

TEST(SlotMap, KeepsTheNumbersOfMastersIfASlotMoves) {
  SlotMap map = *read_map({range(0, 9, {node("10.0.0.1", 7000)})});
  map.move(5, {"10.0.0.2", 7001});
  EXPECT_EQ(map.owner_of(4), 0);
  EXPECT_EQ(map.owner_of(5), 1);
  EXPECT_EQ(map.find({"10.0.0.2", 7001}), 1);
  EXPECT_EQ(map.covered(), 10u);
  map.move(100, {"10.0.0.1", 7000});
  EXPECT_EQ(map.owner_of(100), 0);
  EXPECT_EQ(map.covered(), 11u);
  EXPECT_EQ(map.masters().size(), 2u);
}

TEST(SlotMap, IsTheSameAsAMapWithOtherNumbersForTheMasters) {
  const std::string a = node("10.0.0.1", 7000);
  const std::string b = node("10.0.0.2", 7001);
  const SlotMap map = *read_map({range(0, 9, {a}), range(10, 19, {b})});
  EXPECT_TRUE(map.serves_as(*read_map({range(10, 19, {b}), range(0, 9, {a})})));
  EXPECT_TRUE(map.serves_as(*read_map({range(0, 9, {a, b}), range(10, 19, {b, a})})));
  EXPECT_FALSE(map.serves_as(*read_map({range(0, 10, {a}), range(11, 19, {b})})));
  EXPECT_FALSE(map.serves_as(*read_map({range(0, 9, {b}), range(10, 19, {a})})));
  EXPECT_FALSE(map.serves_as(*read_map({range(0, 9, {a}), range(11, 20, {b})})));
  EXPECT_FALSE(map.serves_as(*read_map({range(0, 9, {a})})));
}

}  // namespace
}  // namespace sluice::redis
