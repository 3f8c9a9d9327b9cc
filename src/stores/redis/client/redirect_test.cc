#include "stores/redis/client/clients.h"

#include <gtest/gtest.h>

#include <string>

#include "stores/redis/client/test_command.h"

namespace sluice::redis::redirect_test {
namespace {

using namespace std::chrono_literals;
using Kind = Step::Kind;

const ServerAddress kFrom{"10.0.0.1", 7000};
const std::chrono::steady_clock::time_point kNow{1000s};

Step step_of(std::string_view error, std::uint8_t redirects = 0,
             std::chrono::steady_clock::duration left = 50ms) {
  TestCommand command({"GET", "k"});
  command.redirects = redirects;
  command.deadline = kNow + left;
  return next_step(error, kFrom, command, kNow);
}

TEST(NextStep, ReadsNamesIPv6AndAMissingHost) {
  const auto address = [](std::string_view error) { return step_of(error).address; };
  EXPECT_EQ(address("MOVED 1 a.example:7001"), (ServerAddress{"a.example", 7001}));
  EXPECT_EQ(address("MOVED 1 ::1:7001"), (ServerAddress{"::1", 7001}));
  EXPECT_EQ(address("MOVED 1 [::1]:7001"), (ServerAddress{"::1", 7001}));
  EXPECT_EQ(address("ASK 1 :7001"), (ServerAddress{"10.0.0.1", 7001}));
}

TEST(NextStep, WithoutAnAddressEndsTheCommandAndRefreshesTheMap) {
  for (const char* error :
       {"MOVED", "MOVED 1", "MOVED x 10.0.0.2:7001", "MOVED 16384 10.0.0.2:7001",
        "MOVED 1 10.0.0.2", "MOVED 1 10.0.0.2:0", "MOVED 1 10.0.0.2:65536", "MOVED 1 10.0.0.2:70x",
        "MOVED 1 ?:7001", "ASK 1 ?:7001", "ASK -1 a:1"}) {
    const Step step = step_of(error);
    EXPECT_EQ(step.kind, Kind::kEnd) << error;
    EXPECT_TRUE(step.refresh) << error;
    EXPECT_EQ(step.moved, std::nullopt) << error;
  }
}

TEST(NextStep, IgnoresErrorsThatOnlyLookLikeARedirect) {
  for (const char* error : {"", "ERR MOVED 1 a:1", "MOVEDX 1 a:1", "moved 1 a:1", "WRONGTYPE",
                            "CROSSSLOT Keys in request don't hash to the same slot", "OOM x"}) {
    const Step step = step_of(error);
    EXPECT_EQ(step.kind, Kind::kEnd) << error;
    EXPECT_FALSE(step.refresh) << error;
  }
}

TEST(NextStep, AfterMovedSendsToTheNewServerAndChangesTheMap) {
  const Step step = step_of("MOVED 3999 10.0.0.2:7001");
  EXPECT_EQ(step.kind, Kind::kSend);
  EXPECT_EQ(step.address, (ServerAddress{"10.0.0.2", 7001}));
  EXPECT_FALSE(step.asking);
  EXPECT_EQ(step.moved, 3999);
  EXPECT_TRUE(step.refresh);
  EXPECT_EQ(step.redirects, 1);
}

TEST(NextStep, AfterAskSendsToTheOtherServerAndKeepsTheMap) {
  const Step step = step_of("ASK 3999 10.0.0.2:7001");
  EXPECT_EQ(step.kind, Kind::kSend);
  EXPECT_EQ(step.address, (ServerAddress{"10.0.0.2", 7001}));
  EXPECT_TRUE(step.asking);
  EXPECT_EQ(step.moved, std::nullopt);
  EXPECT_FALSE(step.refresh);
  EXPECT_EQ(step.redirects, 1);
}

TEST(NextStep, AfterTryAgainWaitsAndResetsTheCountOfRedirects) {
  const Step step = step_of("TRYAGAIN Multiple keys request during rehashing of slot", 5);
  EXPECT_EQ(step.kind, Kind::kPause);
  EXPECT_EQ(step.redirects, 0);
  EXPECT_FALSE(step.refresh);
}

TEST(NextStep, AfterTryAgainEndsTheCommandIfNoTimeIsLeft) {
  EXPECT_EQ(step_of("TRYAGAIN x", 0, kPause).kind, Kind::kEnd);
  EXPECT_EQ(step_of("TRYAGAIN x", 0, kPause + 1ns).kind, Kind::kPause);
}

TEST(NextStep, AfterTheDeadlineEndsTheCommandButChangesTheMap) {
  EXPECT_EQ(step_of("MOVED 1 10.0.0.2:7001", 0, 1ns).kind, Kind::kSend);
  const Step step = step_of("MOVED 1 10.0.0.2:7001", 0, 0ns);
  EXPECT_EQ(step.kind, Kind::kEnd);
  EXPECT_EQ(step.moved, 1);
  EXPECT_EQ(step_of("ASK 1 10.0.0.2:7001", 0, 0ns).kind, Kind::kEnd);
}

TEST(NextStep, AfterFiveRedirectsEndsTheCommand) {
  EXPECT_EQ(step_of("MOVED 1 10.0.0.2:7001", 4).kind, Kind::kSend);
  EXPECT_EQ(step_of("MOVED 1 10.0.0.2:7001", 4).redirects, 5);
  EXPECT_EQ(step_of("MOVED 1 10.0.0.2:7001", 5).kind, Kind::kEnd);
  EXPECT_EQ(step_of("ASK 1 10.0.0.2:7001", 5).kind, Kind::kEnd);
}

TEST(NextStep, AfterAnErrorOfAnUnreadyServerEndsTheCommandAndRefreshesTheMap) {
  for (const char* error :
       {"CLUSTERDOWN Hash slot not served", "MASTERDOWN Link with MASTER is down",
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.", "MOVED 1 ?:7001"}) {
    EXPECT_EQ(step_of(error).kind, Kind::kEnd) << error;
    EXPECT_TRUE(step_of(error).refresh) << error;
  }
}

TEST(NextStep, AfterAnotherErrorOnlyEndsTheCommand) {
  for (const char* error : {"CROSSSLOT Keys in request don't hash to the same slot", "OOM x", ""}) {
    EXPECT_EQ(step_of(error).kind, Kind::kEnd) << error;
    EXPECT_FALSE(step_of(error).refresh) << error;
    EXPECT_EQ(step_of(error).moved, std::nullopt);
  }
}

}  // namespace
}  // namespace sluice::redis::redirect_test
