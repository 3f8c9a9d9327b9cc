#include "stores/redis/cluster/cluster_client.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

struct Silent final : Command {
  void done(const Answer&) noexcept override {}
};

TEST(Parked, ReturnsEachCommandWhenItIsDueEarliestFirst) {
  const Time start{1000s};
  std::array<Silent, 3> commands;
  Parked parked;
  EXPECT_EQ(parked.due(), Time::max());
  parked.add(commands[0], start + 3ms);
  parked.add(commands[1], start + 1ms);
  parked.add(commands[2], start + 2ms);
  EXPECT_EQ(parked.due(), start + 1ms);
  EXPECT_EQ(parked.take(start + 1ms - 1ns), nullptr);
  EXPECT_EQ(parked.take(start + 1ms), &commands[1]);
  EXPECT_EQ(parked.take(start + 1ms), nullptr);
  EXPECT_EQ(parked.take(start + 9ms), &commands[2]);
  EXPECT_EQ(parked.take(start + 9ms), &commands[0]);
  EXPECT_TRUE(parked.is_empty());
}

TEST(Parked, KeepsTheOrderOfCommandsThatAreDueTogether) {
  const Time start{1000s};
  std::array<Silent, 100> commands;
  Parked parked;
  for (Silent& command : commands) parked.add(command, start);
  EXPECT_EQ(parked.size(), commands.size());
  for (Silent& command : commands) EXPECT_EQ(parked.take(start), &command);
}

}  // namespace
}  // namespace sluice::redis
