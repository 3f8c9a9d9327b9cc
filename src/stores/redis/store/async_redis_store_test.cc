#include "sluice/async_redis_store.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <future>
#include <optional>
#include <vector>

#include "sluice/sluice.h"

// Without a server. tests/redis tests the asynchronous stores with real servers.
namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNowhere = "redis+unix:///nonexistent/redis.sock";
constexpr auto kWindow = fixed_window(10).per(1h);

// A request for one key, its answers, and how often it was answered.
class Asked final : public AsyncStore::Completion {
 public:
  void ask(AsyncStore& of, std::size_t charges = 1) {
    charges_.assign(charges, Charge{"key", kWindow});
    each.resize(charges);
    of.async_apply(Verb::kTake, charges_, {}, each, *this);
  }
  void done(const Decision& answer) noexcept override {
    decision = answer;
    ++times_done;
    if (then) then->ask(*store);
  }

  Decision decision;
  std::vector<Decision> each;
  int times_done = 0;
  Asked* then = nullptr;  // asks `store` when this is answered
  AsyncStore* store = nullptr;

 private:
  std::vector<Charge> charges_;
};

TEST(AsyncRedisStore, OpensOnlyWithOptionsThatAreRight) {
  boost::asio::io_context loop;
  const auto store = AsyncRedisStore::open(loop, {.url = "http://localhost"});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error(), RedisStore::open({.url = "http://localhost"}).error());
}

TEST(AsyncRedisStore, AnswersAnInvalidRequestAtOnce) {
  boost::asio::io_context loop;
  const auto store = AsyncRedisStore::open(loop, {.url = kNowhere}).value();
  Asked none;
  none.ask(*store, 0);
  EXPECT_EQ(none.times_done, 1);
  EXPECT_EQ(none.decision.reason, Reason::kInvalid);
}

TEST(AsyncRedisStore, AnswersEachRequestOnceWhenTheLoopHasRun) {
  boost::asio::io_context loop;
  const auto store = AsyncRedisStore::open(loop, {.url = kNowhere, .deadline = 1h}).value();
  EXPECT_FALSE(store->ready());
  Asked one;
  Asked two;
  one.ask(*store);
  two.ask(*store, 2);
  EXPECT_EQ(one.times_done + two.times_done, 0);
  while (two.times_done == 0) loop.run_one();
  EXPECT_EQ(one.times_done, 1);
  EXPECT_EQ(two.times_done, 1);
  EXPECT_EQ(one.decision.reason, Reason::kStoreError);
  EXPECT_EQ(two.each[1].reason, Reason::kStoreError);
  EXPECT_EQ(store->why(), "/nonexistent/redis.sock: No such file or directory");
  EXPECT_GE(store->stats().errors, 2u);
}

TEST(AsyncRedisStore, LetsACompletionStartAnotherRequest) {
  boost::asio::io_context loop;
  const auto store = AsyncRedisStore::open(loop, {.url = kNowhere}).value();
  Asked first;
  Asked second;
  first.then = &second;
  first.store = store.get();
  first.ask(*store);
  while (second.times_done == 0) loop.run_one();
  EXPECT_EQ(first.times_done, 1);
  EXPECT_EQ(second.decision.reason, Reason::kStoreError);
}

TEST(AsyncRedisStore, EndsTheRequestsUnderWayWhenItIsDestroyed) {
  boost::asio::io_context loop;
  auto store = AsyncRedisStore::open(loop, {.url = kNowhere}).value();
  Asked asked;
  Asked another;
  asked.then = &another;
  asked.store = store.get();
  asked.ask(*store);
  store.reset();
  EXPECT_EQ(asked.times_done, 1);
  EXPECT_EQ(another.times_done, 1) << "it was started by the completion of the first";
  EXPECT_EQ(another.decision.reason, Reason::kStoreError);
}

// Of RedisStore, whose thread answers.
class Answered final : public AsyncStore::Completion {
 public:
  void ask(RedisStore& store) { store.async_apply(Verb::kTake, charges_, {}, each_, *this); }
  void done(const Decision& decision) noexcept override { answer_.set_value(decision); }
  Reason reason() { return answer_.get_future().get().reason; }

 private:
  const std::vector<Charge> charges_{{"key", kWindow}};
  std::vector<Decision> each_{1};
  std::promise<Decision> answer_;
};

TEST(RedisStoreAsync, AnswersManyRequestsOfOneThread) {
  const auto store = RedisStore::open({.url = kNowhere}).value();
  std::vector<Answered> requests(1000);
  for (Answered& request : requests) request.ask(*store);
  for (Answered& request : requests) EXPECT_EQ(request.reason(), Reason::kStoreError);
  EXPECT_EQ(store->stats().pending, 0u);
}

TEST(RedisStoreAsync, EndsTheRequestsUnderWayWhenItIsDestroyed) {
  auto store = RedisStore::open({.url = kNowhere}).value();
  std::vector<Answered> requests(100);
  for (Answered& request : requests) request.ask(*store);
  store.reset();
  for (Answered& request : requests) EXPECT_EQ(request.reason(), Reason::kStoreError);
}

}  // namespace
}  // namespace sluice
