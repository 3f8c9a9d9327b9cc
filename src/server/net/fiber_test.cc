#include "server/net/fiber.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::server::net::fiber_test {
namespace {

TEST(FiberPool, RunsAJobThatDoesNotWaitBeforeItReturns) {
  FiberPool pool({});
  std::string said;
  FiberJob job([&] { said += "run,"; }, [&] { said += "done,"; });
  EXPECT_TRUE(pool.run(job));
  EXPECT_EQ(said, "run,done,");
}

TEST(FiberPool, ReturnsFromAJobThatWaitsAndEndsItInFinish) {
  FiberPool pool({});
  std::string said;
  FiberWait* waits = nullptr;
  FiberJob job(
      [&] {
        FiberWait wait;
        waits = &wait;
        said += "run,";
        wait.wait();
        said += "waited,";
      },
      [&] { said += "done,"; });
  EXPECT_TRUE(pool.run(job));
  EXPECT_EQ(said, "run,");
  waits->finish();
  EXPECT_EQ(said, "run,waited,done,");
}

TEST(FiberPool, ReportsTheRunningFiberAndNoneOnTheLoopsStack) {
  FiberPool pool({});
  Fiber* inside = nullptr;
  Fiber* in_done = inside;
  FiberJob job([&] { inside = current_fiber(); }, [&] { in_done = current_fiber(); });
  EXPECT_EQ(current_fiber(), nullptr);
  pool.run(job);
  EXPECT_NE(inside, nullptr);
  EXPECT_EQ(in_done, nullptr);
  EXPECT_EQ(current_fiber(), nullptr);
}

TEST(FiberPool, HasAtMostTheConfiguredFibersAndReusesThem) {
  FiberPool pool({.most = 2});
  std::vector<FiberWait*> waits;
  FiberJob waiting([&] {
    FiberWait wait;
    waits.push_back(&wait);
    wait.wait();
  });
  EXPECT_TRUE(pool.run(waiting));
  EXPECT_TRUE(pool.run(waiting));
  bool ran = false;
  FiberJob another([&] { ran = true; });
  EXPECT_FALSE(pool.run(another));
  EXPECT_FALSE(ran);
  waits[0]->finish();
  EXPECT_TRUE(pool.run(another));
  EXPECT_TRUE(ran);
  waits[1]->finish();
}

TEST(FiberPool, RunsAJobInsideDoneOfAnother) {
  FiberPool pool({.most = 1});
  bool ran = false;
  FiberJob second([&] { ran = true; });
  std::unique_ptr<FiberJob> first;
  first = std::make_unique<FiberJob>([] {},
                                     [&] {
                                       EXPECT_TRUE(pool.run(second));
                                       first.reset();  // this is allowed
                                     });
  pool.run(*first);
  EXPECT_TRUE(ran);
}

TEST(FiberPool, KeepsTheStacksOfManyFibersSeparate) {
  constexpr std::size_t kFibers = 100;
  constexpr std::size_t kWaits = 20;
  FiberPool pool({.most = kFibers, .stack_bytes = 64 << 10});
  std::vector<FiberWait*> waits(kFibers);
  std::vector<std::size_t> sums(kFibers);
  std::vector<std::unique_ptr<FiberJob>> jobs;
  for (std::size_t i = 0; i < kFibers; ++i) {
    jobs.push_back(std::make_unique<FiberJob>([&, i] {
      std::size_t own[512] = {};
      for (std::size_t turn = 0; turn < kWaits; ++turn) {
        for (std::size_t& cell : own) cell += i;
        FiberWait wait;
        waits[i] = &wait;
        wait.wait();
      }
      for (const std::size_t cell : own) sums[i] += cell;
    }));
    ASSERT_TRUE(pool.run(*jobs.back()));
  }
  for (std::size_t turn = 0; turn < kWaits; ++turn) {
    for (std::size_t i = 0; i < kFibers; ++i) waits[(i * 37 + turn) % kFibers]->finish();
  }
  for (std::size_t i = 0; i < kFibers; ++i) EXPECT_EQ(sums[i], 512 * kWaits * i);
}

TEST(FiberPool, KeepsExceptionsThatAreCaughtInTheFiber) {
  FiberPool pool({});
  std::string caught;
  FiberJob job([&] {
    FiberWait wait;
    try {
      throw std::runtime_error("inside");
    } catch (const std::exception& error) {
      caught = error.what();
    }
    wait.finish();
    wait.wait();
  });
  try {
    throw std::runtime_error("outside");
  } catch (const std::exception& error) {
    pool.run(job);
    EXPECT_STREQ(error.what(), "outside");
  }
  EXPECT_EQ(caught, "inside");
}

TEST(FiberPoolDeathTest, AnExceptionThatLeavesAJobEndsTheProcess) {
  FiberPool pool({});
  FiberJob job([] { throw std::runtime_error("nobody catches this"); });
  EXPECT_DEATH(pool.run(job), "");
}

// Recurses deeper than any stack. `depth` keeps each call's frame.
int sink(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[4096] = {};
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : sink(depth - 1) + frame[0];
}

TEST(FiberPoolDeathTest, AStackOverflowEndsTheProcess) {
  FiberPool pool({});
  volatile int depth = 1000;
  FiberJob job([&] { depth = sink(depth); });
  EXPECT_DEATH(pool.run(job), "");
}

TEST(FiberWait, DoesNotWaitForAnEventThatHasHappened) {
  FiberPool pool({});
  bool done = false;
  FiberJob job(
      [&] {
        FiberWait wait;
        wait.finish();
        wait.wait();
      },
      [&] { done = true; });
  pool.run(job);
  EXPECT_TRUE(done);
}

TEST(FiberWait, FinishedOnAnotherFiberResumesWhenThatFiberLeaves) {
  FiberPool pool({.most = 3});
  std::string said;
  FiberWait* waits[2] = {};
  FiberJob first([&] {
    FiberWait wait;
    waits[0] = &wait;
    wait.wait();
    said += "first,";
  });
  FiberJob second([&] {
    FiberWait wait;
    waits[1] = &wait;
    wait.wait();
    said += "second,";
  });
  FiberJob third([&] {
    waits[0]->finish();
    waits[1]->finish();
    said += "third,";
  });
  pool.run(first);
  pool.run(second);
  pool.run(third);
  EXPECT_EQ(said, "third,first,second,");
}

TEST(FiberPool, IsSeparateForEachThread) {
  const auto live = [] {
    FiberPool pool({.most = 4});
    FiberWait* waits = nullptr;
    int turns = 0;
    FiberJob job([&] {
      FiberWait wait;
      waits = &wait;
      wait.wait();
      ++turns;
    });
    for (int i = 0; i < 1000; ++i) {
      pool.run(job);
      waits->finish();
    }
    EXPECT_EQ(turns, 1000);
  };
  std::thread other(live);
  live();
  other.join();
}

}  // namespace
}  // namespace sluice::server::net::fiber_test
