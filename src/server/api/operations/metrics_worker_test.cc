#include "server/api/operations/operations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <ranges>
#include <string>
#include <utility>

#include "server/net/fiber.h"
#include "tests/support/wait_until.h"

namespace sluice::server {
namespace {

class MetricsWorkerTest : public ::testing::Test {
 protected:
  // Asks for the text on a fiber.
  struct Ask : net::FiberJob {
    Ask(MetricsWorker& worker, net::FiberSleeps& sleeps)
        : FiberJob{[&, this] { text = worker.text(sleeps); }, [this] { is_done = true; }} {}

    std::shared_ptr<const std::string> text;
    bool is_done = false;
  };

  // Writing a text takes until `may_end_`.
  void SetUp() override {
    registry_.add("sluice_ready", "One of the server.", [this] {
      const bool alone = writers_.fetch_add(1) == 0;
      is_at_once_ = is_at_once_ || !alone;
      ++texts_;
      testing::wait_until("the test lets the text end", [this] { return may_end_.load(); });
      --writers_;
      return 7.;
    });
  }
  void wait_for_first_text() {
    testing::wait_until("a text is begun", [this] { return texts_ > 0; });
  }
  void run_until_done(const std::deque<Ask>& asks) {
    for (const Ask& ask : asks) {
      testing::wait_until(
          "a request is answered", [&] { return ask.is_done; },
          [this] {
            loop_.run_one_for(std::chrono::milliseconds(10));
            loop_.restart();
          });
    }
  }

  boost::asio::io_context loop_;
  net::FiberPool pool_{{}};
  net::FiberSleeps sleeps_{loop_};
  metrics::Registry registry_;
  std::atomic<int> writers_{0}, texts_{0};
  std::atomic<bool> may_end_{false}, is_at_once_{false};
};

TEST_F(MetricsWorkerTest, LetsTheLoopGoOnAndWritesOneTextAtATime) {
  MetricsWorker worker(registry_);
  std::deque<Ask> asks;
  for (int i = 0; i < 30; ++i) {
    pool_.run(asks.emplace_back(worker, sleeps_));  // returns although no text is written
    wait_for_first_text();
  }
  EXPECT_FALSE(asks.front().is_done);
  may_end_ = true;
  run_until_done(asks);
  for (const Ask& ask : asks) EXPECT_NE(ask.text->find("sluice_ready 7"), std::string::npos);
  EXPECT_FALSE(is_at_once_);
  EXPECT_EQ(texts_, 2) << "one for the first request and one for all others";
  for (const Ask& ask : std::ranges::subrange(asks.begin() + 1, asks.end())) {
    EXPECT_EQ(ask.text, asks.back().text) << "they share it";
  }
}

TEST_F(MetricsWorkerTest, BoundsTheRequestsOfALoopThatWait) {
  MetricsWorker worker(registry_);
  std::deque<Ask> asks;
  for (std::size_t i = 0; i < MetricsWorker::kMostWaiting; ++i) {
    pool_.run(asks.emplace_back(worker, sleeps_));
    EXPECT_FALSE(asks.back().is_done);
  }
  Ask more(worker, sleeps_);
  pool_.run(more);
  EXPECT_TRUE(more.is_done);
  EXPECT_EQ(more.text, nullptr);
  net::FiberSleeps sleeps_of_another_loop(loop_);
  pool_.run(asks.emplace_back(worker, sleeps_of_another_loop));
  EXPECT_FALSE(asks.back().is_done);
  may_end_ = true;
  run_until_done(asks);
  for (const Ask& ask : asks) EXPECT_NE(ask.text, nullptr);
  pool_.run(asks.emplace_back(worker, sleeps_));
  run_until_done(asks);
  EXPECT_NE(asks.back().text, nullptr) << "nobody waits any more";
}

TEST_F(MetricsWorkerTest, RequestsThatWaitAreAnsweredWhenTheLoopStops) {
  MetricsWorker worker(registry_);
  std::deque<Ask> asks;
  pool_.run(asks.emplace_back(worker, sleeps_));
  wait_for_first_text();
  may_end_ = true;
  sleeps_.stop();
  pool_.run(asks.emplace_back(worker, sleeps_));
  for (const Ask& ask : asks) {
    EXPECT_TRUE(ask.is_done);
    EXPECT_NE(ask.text->find("sluice_ready 7"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::server
