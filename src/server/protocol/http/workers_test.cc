#include "server/protocol/http/workers.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace sluice::server::http {
namespace {

// What handlers have been asked for and wait for, in turn.
struct Desk {
  std::deque<net::FiberWait*> waits;
  std::vector<std::string> begun;
  int made = 0;
  int alive = 0;

  void finish_first() {
    net::FiberWait* const first = waits.front();
    waits.pop_front();
    first->finish();
  }
  void finish_last() {
    net::FiberWait* const last = waits.back();
    waits.pop_back();
    last->finish();
  }
};

// Answers with the target; waits before it does, but for "/now".
class DeskHandler final : public Handler {
 public:
  explicit DeskHandler(Desk& desk) : desk_(desk), number_(++desk.made) { ++desk_.alive; }
  ~DeskHandler() override { --desk_.alive; }

  void handle(const Request& request, Response& response) override {
    desk_.begun.emplace_back(request.target);
    if (request.target != "/now") {
      net::FiberWait wait;
      desk_.waits.push_back(&wait);
      wait.wait();
    }
    response.text = std::string(request.target) + " by " + std::to_string(number_);
  }
  void finished(const Request&, const Response&, std::chrono::nanoseconds) override {}

 private:
  Desk& desk_;
  const int number_;
};

// Keeps what it is told; asks for `next` when it goes on.
class TestAsker final : public Asker {
 public:
  explicit TestAsker(Workers& workers) : workers_(workers) {}

  bool ask(const std::string& target) {
    Request request;
    target_ = target;
    request.target = target_;
    return workers_.ask(*this, request);
  }
  void answered(const Request& request, const Response& response, Handler&) override {
    EXPECT_EQ(request.target, target_);
    told += response.text + ",";
  }
  void go_on() override {
    told += "on,";
    if (next.empty()) return;
    const std::string target = std::exchange(next, {});
    EXPECT_FALSE(ask(target));
  }

  std::string told;
  std::string next;

 private:
  Workers& workers_;
  std::string target_;
};

class WorkersTest : public ::testing::Test {
 protected:
  Workers::Make make() {
    return [this] { return std::make_unique<DeskHandler>(desk_); };
  }
  Desk desk_;
};

TEST_F(WorkersTest, TellTheAnswerAtOnceWhereNothingWaits) {
  Workers workers(make(), {});
  TestAsker asker(workers);
  EXPECT_TRUE(asker.ask("/now"));
  EXPECT_TRUE(asker.ask("/now"));
  EXPECT_EQ(asker.told, "/now by 1,/now by 1,") << "and are not told to go on";
}

TEST_F(WorkersTest, TellTheAnswerThatHadToWaitAndThenToGoOn) {
  Workers workers(make(), {});
  TestAsker asker(workers);
  EXPECT_FALSE(asker.ask("/a"));
  EXPECT_EQ(asker.told, "");
  desk_.finish_first();
  EXPECT_EQ(asker.told, "/a by 1,on,");
  EXPECT_TRUE(asker.ask("/now"));
}

TEST_F(WorkersTest, HaveHandlersForAsManyAsWaitAtOnce) {
  Workers workers(make(), {.most = 10});
  TestAsker a(workers);
  TestAsker b(workers);
  EXPECT_FALSE(a.ask("/a"));
  EXPECT_FALSE(b.ask("/b"));
  EXPECT_EQ(desk_.alive, 2);
  desk_.finish_last();
  EXPECT_EQ(b.told, "/b by 2,on,");
  EXPECT_EQ(a.told, "");
  desk_.finish_last();
  EXPECT_EQ(a.told, "/a by 1,on,");
}

TEST_F(WorkersTest, TakeInTurnWhatFindsNoneFree) {
  Workers workers(make(), {.most = 2});
  std::vector<std::unique_ptr<TestAsker>> askers;
  for (const char* target : {"/a", "/b", "/c", "/d", "/e"}) {
    askers.push_back(std::make_unique<TestAsker>(workers));
    EXPECT_FALSE(askers.back()->ask(target));
  }
  askers[1]->next = "/again";
  while (!desk_.waits.empty()) desk_.finish_last();
  const std::vector<std::string> in_turn{"/a", "/b", "/c", "/d", "/e", "/again"};
  EXPECT_EQ(desk_.begun, in_turn);
  EXPECT_EQ(askers[1]->told, "/b by 2,on,/again by 2,on,");
  EXPECT_EQ(desk_.made, 2);
}

TEST_F(WorkersTest, MakeWhoeverWaitsGoOnThoughItsHandlerDoesNotWait) {
  Workers workers(make(), {.most = 1});
  TestAsker a(workers);
  TestAsker b(workers);
  TestAsker c(workers);
  a.next = "/a2";
  EXPECT_FALSE(a.ask("/a"));
  EXPECT_FALSE(b.ask("/now"));
  EXPECT_FALSE(c.ask("/now"));
  desk_.finish_first();
  EXPECT_EQ(b.told, "/now by 1,on,");
  EXPECT_EQ(c.told, "/now by 1,on,");
  EXPECT_EQ(a.told, "/a by 1,on,") << "behind those that came before";
  desk_.finish_first();
  EXPECT_EQ(a.told, "/a by 1,on,/a2 by 1,on,");
}

TEST_F(WorkersTest, MakeTheirHandlersAnewOnceTheseAreDone) {
  Workers workers(make(), {});
  TestAsker a(workers);
  TestAsker b(workers);
  EXPECT_FALSE(a.ask("/a"));
  EXPECT_FALSE(b.ask("/b"));
  desk_.finish_last();
  workers.renew();
  EXPECT_EQ(desk_.alive, 1) << "the one that is at work";
  desk_.finish_first();
  EXPECT_EQ(a.told, "/a by 1,on,");
  EXPECT_EQ(desk_.alive, 1);
  EXPECT_TRUE(a.ask("/now"));
  EXPECT_EQ(a.told, "/a by 1,on,/now by 3,");
  workers.renew();
  EXPECT_EQ(desk_.alive, 1) << "which holds what is in force now";
}

}  // namespace
}  // namespace sluice::server::http
