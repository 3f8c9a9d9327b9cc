#include "server/net/worker_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::server::net {
namespace {

// The log of a test's workers, and what they wait for.
struct Record {
  std::deque<FiberWait*> waits;
  std::vector<std::string> begun;
  int made = 0;
  int alive = 0;
  int recycled = 0;
  int followed = 0;

  void finish_first() {
    FiberWait* const first = waits.front();
    waits.pop_front();
    first->finish();
  }
  void finish_last() {
    FiberWait* const last = waits.back();
    waits.pop_back();
    last->finish();
  }
};

class TestWorker {
 public:
  explicit TestWorker(Record& record) : record_(record), number_(++record.made) { ++record_.alive; }
  ~TestWorker() { --record_.alive; }
  TestWorker(const TestWorker&) = delete;
  TestWorker& operator=(const TestWorker&) = delete;

  // Waits, unless the target is "/now".
  void answer(const std::string& target) {
    record_.begun.push_back(target);
    if (target != "/now") {
      FiberWait wait;
      record_.waits.push_back(&wait);
      wait.wait();
    }
    text = target + " by " + std::to_string(number_);
  }
  void follow_rules() { ++record_.followed; }
  void recycle() {
    text.clear();
    ++record_.recycled;
  }

  std::string text;

 private:
  Record& record_;
  const int number_;
};

using Pool = WorkerPool<TestWorker>;

class TestTask final : public Pool::Task {
 public:
  explicit TestTask(Pool& pool) : pool_(pool) {}

  bool submit(const std::string& target) {
    target_ = target;
    return pool_.submit(*this);
  }
  void work(TestWorker& worker) override { worker.answer(target_); }
  bool finish(TestWorker& worker) override {
    log += worker.text + ",";
    return resumes;
  }
  void resume() override {
    log += "resumed,";
    if (next.empty()) return;
    EXPECT_FALSE(submit(std::exchange(next, {})));
  }
  bool wanted() const override { return still_wanted; }
  void dropped() override { log += "dropped,"; }

  std::string log;
  std::string next;  // resume() submits it
  bool resumes = true;
  bool still_wanted = true;

 private:
  Pool& pool_;
  std::string target_;
};

class WorkerPoolTest : public ::testing::Test {
 protected:
  auto make() {
    return [this] { return std::make_unique<TestWorker>(record_); };
  }
  Record record_;
};

TEST_F(WorkerPoolTest, WithoutFibersAnswersOnTheCallersStack) {
  Pool pool(make(), {});
  EXPECT_FALSE(pool.waits());
  TestTask request(pool);
  EXPECT_TRUE(request.submit("/now"));
  EXPECT_TRUE(request.submit("/now"));
  EXPECT_EQ(request.log, "/now by 1,/now by 1,");
  EXPECT_EQ(record_.recycled, 2);
}

TEST_F(WorkerPoolTest, WithoutFibersReportsNewRulesToItsWorker) {
  Pool pool(make(), {});
  pool.follow_rules();
  EXPECT_EQ(record_.followed, 1);
  EXPECT_EQ(record_.made, 1);
}

TEST_F(WorkerPoolTest, DoesNotResumeARequestThatAskAnswers) {
  Pool pool(make(), FiberPool::Options{});
  TestTask request(pool);
  EXPECT_TRUE(request.submit("/now"));
  EXPECT_TRUE(request.submit("/now"));
  EXPECT_EQ(request.log, "/now by 1,/now by 1,");
}

TEST_F(WorkerPoolTest, ResumesARequestThatWaitedAfterItsAnswer) {
  Pool pool(make(), FiberPool::Options{});
  TestTask request(pool);
  EXPECT_FALSE(request.submit("/a"));
  EXPECT_EQ(request.log, "");
  record_.finish_first();
  EXPECT_EQ(request.log, "/a by 1,resumed,");
  EXPECT_TRUE(request.submit("/now"));
}

TEST_F(WorkerPoolTest, DoesNotResumeARequestThatFinishedForGood) {
  Pool pool(make(), FiberPool::Options{});
  TestTask request(pool);
  request.resumes = false;
  EXPECT_FALSE(request.submit("/a"));
  record_.finish_first();
  EXPECT_EQ(request.log, "/a by 1,");
}

TEST_F(WorkerPoolTest, MakesAWorkerForEachRequestThatWaits) {
  Pool pool(make(), FiberPool::Options{.most = 10});
  TestTask a(pool);
  TestTask b(pool);
  EXPECT_FALSE(a.submit("/a"));
  EXPECT_FALSE(b.submit("/b"));
  EXPECT_EQ(record_.alive, 2);
  record_.finish_last();
  EXPECT_EQ(b.log, "/b by 2,resumed,");
  EXPECT_EQ(a.log, "");
  record_.finish_last();
  EXPECT_EQ(a.log, "/a by 1,resumed,");
}

TEST_F(WorkerPoolTest, StartsQueuedRequestsInTheirOrder) {
  Pool pool(make(), FiberPool::Options{.most = 2});
  std::vector<std::unique_ptr<TestTask>> requests;
  for (const char* target : {"/a", "/b", "/c", "/d", "/e"}) {
    requests.push_back(std::make_unique<TestTask>(pool));
    EXPECT_FALSE(requests.back()->submit(target));
  }
  requests[1]->next = "/again";
  while (!record_.waits.empty()) record_.finish_last();
  const std::vector<std::string> in_turn{"/a", "/b", "/c", "/d", "/e", "/again"};
  EXPECT_EQ(record_.begun, in_turn);
  EXPECT_EQ(requests[1]->log, "/b by 2,resumed,/again by 2,resumed,");
  EXPECT_EQ(record_.made, 2);
}

TEST_F(WorkerPoolTest, ResumesQueuedRequestsThatDoNotWaitThemselves) {
  Pool pool(make(), FiberPool::Options{.most = 1});
  TestTask a(pool);
  TestTask b(pool);
  TestTask c(pool);
  a.next = "/a2";
  EXPECT_FALSE(a.submit("/a"));
  EXPECT_FALSE(b.submit("/now"));
  EXPECT_FALSE(c.submit("/now"));
  record_.finish_first();
  EXPECT_EQ(b.log, "/now by 1,resumed,");
  EXPECT_EQ(c.log, "/now by 1,resumed,");
  EXPECT_EQ(a.log, "/a by 1,resumed,") << "its next request comes after those in the queue";
  record_.finish_first();
  EXPECT_EQ(a.log, "/a by 1,resumed,/a2 by 1,resumed,");
}

TEST_F(WorkerPoolTest, DropsAQueuedRequestThatNobodyWants) {
  Pool pool(make(), FiberPool::Options{.most = 1});
  TestTask a(pool);
  TestTask b(pool);
  EXPECT_FALSE(a.submit("/a"));
  EXPECT_FALSE(b.submit("/b"));
  b.still_wanted = false;
  record_.finish_first();
  EXPECT_EQ(b.log, "dropped,");
  EXPECT_EQ(record_.begun, std::vector<std::string>{"/a"});
}

TEST_F(WorkerPoolTest, ReplacesItsWorkersWhenTheRulesChangeAndBusyOnesLater) {
  Pool pool(make(), FiberPool::Options{});
  TestTask a(pool);
  TestTask b(pool);
  EXPECT_FALSE(a.submit("/a"));
  EXPECT_FALSE(b.submit("/b"));
  record_.finish_last();
  pool.follow_rules();
  EXPECT_EQ(record_.alive, 1) << "the busy one";
  record_.finish_first();
  EXPECT_EQ(a.log, "/a by 1,resumed,");
  EXPECT_EQ(record_.alive, 1);
  EXPECT_TRUE(a.submit("/now"));
  EXPECT_EQ(a.log, "/a by 1,resumed,/now by 3,");
  pool.follow_rules();
  EXPECT_EQ(record_.alive, 1) << "one that has the active rules";
}

}  // namespace
}  // namespace sluice::server::net
