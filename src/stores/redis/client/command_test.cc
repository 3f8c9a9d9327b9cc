#include "stores/redis/client/command.h"

#include <gtest/gtest.h>

#include <limits>

#include "stores/redis/client/test_reply.h"

namespace sluice::redis {
namespace {

class Silent final : public Command {
 public:
  void done(const Answer&) noexcept override {}
};

TEST(Command, EncodesItsElementsAsTheyAreSent) {
  using namespace std::string_view_literals;
  Silent command;
  command.append("SET");
  command.append("\r\n\0"sv);
  command.append("");
  command.append(std::uint64_t{0});
  command.append(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(command.tail,
            "$3\r\nSET\r\n$3\r\n\r\n\0\r\n$0\r\n\r\n$1\r\n0\r\n$20\r\n18446744073709551615\r\n"sv);
  EXPECT_EQ(command.elements, 5u);
}

TEST(Slot, EqualsTheExamplesOfTheSpecification) {
  EXPECT_EQ(slot_of("123456789"), 0x31C3);
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of("bar"), 5061);
  EXPECT_EQ(slot_of(""), 0);
}

TEST(Slot, DependsOnTheHashTagOnly) {
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("user1000"));
  EXPECT_EQ(slot_of("{user1000}.followers"), slot_of("user1000"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
}

TEST(Slot, DependsOnTheWholeKeyIfTheFirstTagIsEmptyOrNotClosed) {
  // With a tag in front that says so, the key being hashed without its braces would be another.
  EXPECT_EQ(slot_of("foo{}{bar}"), 8363);
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));
  EXPECT_NE(slot_of("foo{bar"), slot_of("bar"));
  EXPECT_NE(slot_of("}foo{bar"), slot_of("bar"));
}

}  // namespace
}  // namespace sluice::redis
