#include "server/net/fiber_sleep.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "server/net/fiber.h"

namespace sluice::server::net {
namespace {

using namespace std::chrono_literals;

Instant now() { return SteadyClock::instance().now(); }

class FiberSleepTest : public ::testing::Test {
 protected:
  boost::asio::io_context loop_;
  FiberPool pool_{{}};
  FiberSleeps sleeps_{loop_};
};

TEST_F(FiberSleepTest, EndsAtItsInstant) {
  const Instant until = now() + 20ms;
  bool woke = false;
  FiberJob job([&] {
    FiberSleep sleep(sleeps_);
    while (now() < until) EXPECT_TRUE(sleep.sleep(until));
    EXPECT_TRUE(sleep.sleep(until)) << "that has passed";
    woke = true;
  });
  pool_.run(job);
  EXPECT_TRUE(!woke || now() >= until);
  loop_.run();
  EXPECT_TRUE(woke);
  EXPECT_GE(now(), until);
}

TEST_F(FiberSleepTest, EndsWhenAnotherThreadWakesIt) {
  std::optional<FiberSleep> sleep;
  std::thread other;
  int wakes = 0;
  FiberJob job([&] {
    sleep.emplace(sleeps_);
    other = std::thread([&] { sleep->wake(); });
    EXPECT_TRUE(sleep->sleep(Instant::max()));
    ++wakes;
    sleep->wake();
    EXPECT_TRUE(sleep->sleep(now() + 1h));
    ++wakes;
  });
  pool_.run(job);
  const auto work = boost::asio::make_work_guard(loop_);
  while (wakes < 2) loop_.run_one();
  other.join();
}

TEST_F(FiberSleepTest, EndsWhenTheLoopStops) {
  std::string said;
  FiberJob one([&] {
    FiberSleep sleep(sleeps_);
    EXPECT_FALSE(sleep.sleep(Instant::max()));
    EXPECT_FALSE(sleep.sleep(Instant::max()));
    said += "one,";
  });
  FiberJob two([&] {
    FiberSleep sleep(sleeps_);
    EXPECT_FALSE(sleep.sleep(now() + 1h));
    said += "two,";
  });
  pool_.run(one);
  pool_.run(two);
  sleeps_.stop();
  EXPECT_EQ(said, "one,two,");
  loop_.run();  // nothing is left
}

TEST_F(FiberSleepTest, CanBeStoppedAloneAndEndsInTheLoop) {
  std::optional<FiberSleep> sleep;
  bool ended = false;
  FiberJob job([&] {
    sleep.emplace(sleeps_);
    EXPECT_FALSE(sleep->sleep(Instant::max()));
    sleep.reset();
    ended = true;
  });
  pool_.run(job);
  sleep->stop();
  EXPECT_FALSE(ended) << "the fiber must not run inside its caller";
  loop_.run();
  EXPECT_TRUE(ended);
}

TEST_F(FiberSleepTest, WaitsForWorkInAnotherLoop) {
  boost::asio::io_context elsewhere;
  std::string said;
  FiberJob job([&] {
    run_elsewhere(elsewhere, sleeps_, [&] { said += "work,"; });
    said += "end,";
    try {
      run_elsewhere(elsewhere, sleeps_, [] { throw std::bad_alloc(); });
    } catch (const std::bad_alloc&) {
      said += "no memory,";
    }
  });
  pool_.run(job);
  EXPECT_EQ(said, "") << "the loop goes on";
  std::thread([&] { elsewhere.run(); }).join();
  EXPECT_EQ(said, "work,");
  loop_.run();
  EXPECT_EQ(said, "work,end,");
  elsewhere.restart();
  std::thread([&] { elsewhere.run(); }).join();
  loop_.restart();
  loop_.run();
  EXPECT_EQ(said, "work,end,no memory,");
}

TEST_F(FiberSleepTest, DoesTheWorkOnceIfTheLoopStops) {
  boost::asio::io_context elsewhere;
  int done = 0;
  FiberJob job([&] { run_elsewhere(elsewhere, sleeps_, [&] { ++done; }); });
  pool_.run(job);
  sleeps_.stop();
  EXPECT_EQ(done, 1);
  elsewhere.run();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace sluice::server::net
