#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "server/api/resp/test_handler.h"

namespace sluice::server::resp {
namespace {

using Reply = std::array<int, 5>;

std::string sent(const Reply& reply) {
  std::string out = "*5\r\n";
  for (const int number : reply) out += ":" + std::to_string(number) + "\r\n";
  return out;
}

struct Known {
  std::vector<std::string_view> words;
  std::vector<Reply> replies;
};

TEST(Throttle, AnswersTheContractsExamples) {
  const std::vector<Known> known{
      {{"15", "30", "60"}, {{0, 16, 15, -1, 2}, {0, 16, 14, -1, 4}, {0, 16, 13, -1, 6}}},
      {{"4", "1", "1"},
       {{0, 5, 4, -1, 1},
        {0, 5, 3, -1, 2},
        {0, 5, 2, -1, 3},
        {0, 5, 1, -1, 4},
        {0, 5, 0, -1, 5},
        {1, 5, 0, 1, 5},
        {1, 5, 0, 1, 5}}},
      {{"0", "1", "2"}, {{0, 1, 0, -1, 2}, {1, 1, 0, 2, 2}}},
      {{"4", "1", "1", "6"}, {{1, 5, 5, -1, 0}}},
  };
  for (const Known& one : known) {
    TestCommands handler;
    std::vector<std::string_view> words{"CL.THROTTLE", "user123"};
    words.insert(words.end(), one.words.begin(), one.words.end());
    for (const Reply& reply : one.replies) EXPECT_EQ(handler.ask(words), sent(reply));
  }
}

TEST(Throttle, HasOtherNamesWithTheSameCounter) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"RL.THROTTLE", "k", "4", "1", "1"}), sent({0, 5, 4, -1, 1}));
  EXPECT_EQ(handler.ask({"GCRA", "k", "4", "1", "1.000", "TOKENS", "2"}), sent({0, 5, 2, -1, 3}));
  EXPECT_EQ(handler.ask({"gcra", "k", "4", "1", "1", "num_requests", "1"}), sent({0, 5, 1, -1, 4}));
  EXPECT_EQ(handler.ask({"THROTTLE", "k", "5", "1", "1"}), sent({1, 5, 0, 8, 0}));
  EXPECT_EQ(handler.ask({"THROTTLE", "k", "5", "1", "1"}), sent({0, 5, 0, 8, 1}));
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "k", "4", "1", "1"}), sent({1, 5, 0, 1, 5}));
  EXPECT_EQ(handler.ask({"GCRA", "k", "4", "1", "0.0001"}).substr(0, 27),
            "-ERR period is out of range");
}

// The requests and replies of throttlecrab 0.4.40, with the time in microseconds.
struct CrabStep {
  std::int64_t now;
  std::string_view quantity;
  Reply reply;
};
struct CrabKnown {
  std::array<std::string_view, 3> limit;
  std::vector<CrabStep> steps;
};

TEST(Throttle, AnswersEveryNumberOfThrottlecrab) {
  const std::vector<CrabKnown> known{
      {{"10", "100", "60"},
       {{0, "1", {1, 10, 9, 5, 0}}, {0, "1", {1, 10, 8, 6, 0}}, {0, "1", {1, 10, 7, 6, 0}}}},
      {{"10", "60", "60"}, {{0, "1", {1, 10, 9, 9, 0}}, {1000, "1", {1, 10, 8, 9, 0}}}},
      {{"5", "1", "1"},
       {{0, "6", {0, 5, 5, 3, 1}},
        {0, "0", {1, 5, 5, 3, 0}},
        {0, "3", {1, 5, 2, 6, 0}},
        {0, "0", {1, 5, 2, 6, 0}},
        {0, "3", {0, 5, 2, 6, 1}},
        {0, "6", {0, 5, 2, 6, 4}},
        {500'000, "3", {0, 5, 2, 5, 0}},
        {1'000'000, "3", {1, 5, 0, 8, 0}}}},
      {{"4", "3", "1"},
       {{0, "1", {1, 4, 3, 0, 0}},
        {0, "1", {1, 4, 2, 1, 0}},
        {0, "2", {1, 4, 0, 1, 0}},
        {0, "1", {0, 4, 0, 1, 0}}}},
      {{"2", "1", "10"},
       {{0, "2", {1, 2, 0, 20, 0}},
        {0, "1", {0, 2, 0, 20, 10}},
        {4'500'000, "1", {0, 2, 0, 15, 5}},
        {10'000'000, "1", {1, 2, 0, 20, 0}},
        {10'500'000, "1", {0, 2, 0, 19, 9}}}},
      {{"1", "1", "10"}, {{0, "1", {1, 1, 0, 0, 0}}}},
  };
  for (const auto& [limit, steps] : known) {
    TestCommands handler;
    const Instant start = handler.clock.now();
    for (const CrabStep& step : steps) {
      handler.clock.set(start + Duration{step.now});
      EXPECT_EQ(handler.ask({"THROTTLE", "k", limit[0], limit[1], limit[2], step.quantity}),
                sent(step.reply))
          << limit[0] << ' ' << limit[1] << ' ' << limit[2] << " at " << step.now;
    }
  }
}

TEST(Throttle, ThrottlecrabsErrorsAreErrors) {
  TestCommands handler;
  const auto starts = [&](const std::vector<std::string_view>& words, std::string_view error) {
    EXPECT_TRUE(handler.ask(words).starts_with(error));
  };
  starts({"THROTTLE", "k", "0", "1", "1"}, "-ERR max_burst is out of range: '0'");
  starts({"THROTTLE", "k", "5", "1", "1", "-1"}, "-ERR quantity is out of range: '-1'");
  EXPECT_EQ(handler.ask({"THROTTLE", "k", "5", "1", "31622400", "9223372036854775807"}),
            "*5\r\n:0\r\n:5\r\n:5\r\n:94867200\r\n:9202118400\r\n");
  EXPECT_EQ(handler.store.stats().keys, 0u);
}

TEST(Throttle, ANegativeQuantityRefundsAtMostWhatWasTaken) {
  TestCommands handler;
  const auto ask = [&](std::string_view quantity) {
    return handler.ask({"cl.throttle", "k", "4", "1", "1", quantity});
  };
  EXPECT_EQ(ask("3"), sent({0, 5, 2, -1, 3}));
  EXPECT_EQ(ask("-1"), sent({0, 5, 3, -1, 2}));
  EXPECT_EQ(ask("-1"), sent({0, 5, 4, -1, 1}));
  EXPECT_EQ(ask("-1"), sent({0, 5, 5, -1, 0}));
  EXPECT_EQ(ask("5"), sent({0, 5, 0, -1, 5}));
  EXPECT_EQ(ask("-9223372036854775807"), sent({0, 5, 5, -1, 0}));
}

struct Step {
  double now;
  std::string_view quantity;
  Reply reply;
};

// The contract's table has exact seconds; on the wire they are rounded up.
TEST(Throttle, FollowsTheContractsTableThroughTime) {
  const std::vector<Step> steps{
      {0, "6", {1, 5, 5, -1, 0}},   {0, "1", {0, 5, 4, -1, 1}},   {0, "1", {0, 5, 3, -1, 2}},
      {0, "1", {0, 5, 2, -1, 3}},   {0, "1", {0, 5, 1, -1, 4}},   {0, "1", {0, 5, 0, -1, 5}},
      {0, "1", {1, 5, 0, 1, 5}},    {3.0, "1", {0, 5, 2, -1, 3}}, {3.1, "1", {0, 5, 1, -1, 4}},
      {4.0, "1", {0, 5, 1, -1, 4}}, {8.0, "1", {0, 5, 4, -1, 1}}, {9.5, "1", {0, 5, 4, -1, 1}},
      {9.5, "0", {0, 5, 4, -1, 1}}, {9.5, "2", {0, 5, 2, -1, 3}}, {9.5, "5", {1, 5, 2, 3, 3}},
  };
  TestCommands handler;
  const Instant start = handler.clock.now();
  for (const Step& step : steps) {
    handler.clock.set(start + Duration{std::llround(step.now * 1e6)});
    EXPECT_EQ(handler.ask({"CL.THROTTLE", "k", "4", "1", "1", step.quantity}), sent(step.reply))
        << "at " << step.now;
  }
}

TEST(Throttle, SecondsAreRoundedUpSoThatALimitedClientNeverReadsZero) {
  TestCommands handler;
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "k", "0", "2000000", "1"}), sent({0, 1, 0, -1, 1}));
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "k", "0", "2000000", "1"}), sent({1, 1, 0, 1, 1}));
}

TEST(Throttle, AQuantityOfZeroIsNeverLimitedAndChangesNothing) {
  TestCommands handler;
  handler.ask({"CL.THROTTLE", "k", "0", "1", "60"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(handler.ask({"CL.THROTTLE", "k", "0", "1", "60", "0"}), sent({0, 1, 0, -1, 60}));
  }
}

TEST(Throttle, RequestsThatNeverFitAreNotStored) {
  TestCommands handler;
  for (const std::string_view most : {"6", "4294967296", "9223372036854775807"}) {
    EXPECT_EQ(handler.ask({"CL.THROTTLE", "k", "4", "1", "1", most}), sent({1, 5, 5, -1, 0}));
  }
  EXPECT_EQ(handler.store.stats().keys, 0u);
}

TEST(Throttle, TheLargestNumbersNeitherWrapNorAbort) {
  TestCommands handler;
  const std::string reply =
      handler.ask({"CL.THROTTLE", "k", "4294967294", "4294967295", "31622400", "4294967295"});
  EXPECT_EQ(reply, "*5\r\n:0\r\n:4294967295\r\n:0\r\n:-1\r\n:31622400\r\n");
}

TEST(Throttle, ErrorsNameTheArgumentAndLeaveTheCounterAlone) {
  TestCommands handler;
  handler.ask({"CL.THROTTLE", "k", "4", "1", "1"});
  const std::vector<std::pair<std::vector<std::string_view>, std::string>> wrong{
      {{"x", "1", "1"}, "-ERR max_burst is not an integer: 'x'"},
      {{"-1", "1", "1"}, "-ERR max_burst is out of range: '-1'"},
      {{"01", "1", "1"}, "-ERR max_burst is not an integer: '01'"},
      {{"-", "1", "1"}, "-ERR max_burst is not an integer: '-'"},
      {{"4294967295", "1", "1"}, "-ERR max_burst is out of range"},
      {{"4", "0", "1"}, "-ERR count is out of range: '0'"},
      {{"4", "-1", "1"}, "-ERR count is out of range: '-1'"},
      {{"4", "1.5", "1"}, "-ERR count is not an integer: '1.5'"},
      {{"4", "1", "0"}, "-ERR period_seconds is out of range: '0'"},
      {{"4", "1", "31622401"}, "-ERR period_seconds is out of range"},
      {{"4", "1", ""}, "-ERR period_seconds is not an integer: ''"},
      {{"4", "1", "1", "1e3"}, "-ERR quantity is not an integer: '1e3'"},
      {{"4", "1", "1", "9223372036854775808"}, "-ERR quantity is out of range"},
      {{"4", "1", "1", "-9223372036854775808"}, "-ERR quantity is out of range"},
      {{"4294967294", "1", "31622400"}, "-ERR count and period_seconds with this max_burst: "},
      {{"4", "1"}, "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},
      {{"4", "1", "1", "1", "1"}, "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},
  };
  for (const auto& [numbers, error] : wrong) {
    std::vector<std::string_view> words{"CL.THROTTLE", "k"};
    words.insert(words.end(), numbers.begin(), numbers.end());
    EXPECT_EQ(handler.ask(words).substr(0, error.size()), error);
  }
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "k", "4", "1", "1", "0"}), sent({0, 5, 4, -1, 1}));
}

TEST(Throttle, KeysAreAnyBytes) {
  TestCommands handler;
  using namespace std::string_view_literals;
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "a\0b"sv, "0", "1", "1"}), sent({0, 1, 0, -1, 1}));
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "a\0c"sv, "0", "1", "1"}), sent({0, 1, 0, -1, 1}));
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "", "0", "1", "1"}), sent({0, 1, 0, -1, 1}));
  EXPECT_EQ(handler.ask({"CL.THROTTLE", "a\0b"sv, "0", "1", "1"}), sent({1, 1, 0, 1, 1}));
}

// A store that returns a given answer.
class Failing final : public Store {
 public:
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    std::fill(each.begin(), each.end(), answer);
    return answer;
  }
  Decision answer{.outcome = Outcome::kDenied};
};

TEST(Throttle, AStoreThatCannotDecideIsAnErrorAndNotADenial) {
  Failing store;
  Limiter limiter(store);
  TestCommands other;
  CommandHandler handler({{limiter, *other.manager, other.registry.make_recorder(), other.denials},
                          other.users,
                          net::LoopClock::system(),
                          {},
                          {},
                          other.connections});
  const auto ask = [&](Reason reason, std::string_view quantity) {
    store.answer.reason = reason;
    handler.request = {"CL.THROTTLE", "k", "4", "1", "1", quantity};
    handler.output.clear();
    handler.answer(other.client);
    return std::string(handler.output.view());
  };
  for (const std::string_view quantity : {"1", "0", "-1", "9"}) {
    EXPECT_TRUE(ask(Reason::kStoreTimeout, quantity).starts_with("-ERR the store did not answer"));
    EXPECT_TRUE(ask(Reason::kStoreError, quantity).starts_with("-ERR the store could not"));
    EXPECT_TRUE(ask(Reason::kForeignValue, quantity).starts_with("-WRONGTYPE "));
  }
}

}  // namespace
}  // namespace sluice::server::resp
