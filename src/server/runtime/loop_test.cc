#include "server/runtime/loop.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "server/net/address.h"
#include "server/net/test_connection_state.h"
#include "server/net/test_listening.h"
#include "server/protocol/http/connection.h"
#include "server/rules/test_folder.h"
#include "server/runtime/front_ends.h"
#include "server/runtime/test_client.h"
#include "server/runtime/test_waiting_stores.h"
#include "tests/support/wait_until.h"

namespace sluice::server::loop_test {
namespace {

using std::chrono::milliseconds;
using testing::wait_until;
using Waits = WaitingStore::Waits;

constexpr const char* kRules = R"(version: 1
rules:
  - name: order
    match: { path: /order }
    limits: [ { name: all, algorithm: fixed_window, limit: 100000, per: 1h } ]
  - name: few
    match: { path: /few }
    limits: [ { name: all, key: "{ip}", algorithm: token_bucket, limit: 2, per: 1h } ]
  - name: trial
    match: { path: /trial }
    mode: shadow
    limits: [ { name: all, algorithm: fixed_window, limit: 5, per: 1h } ]
  - name: local
    match: { path: /local }
    on_store_error: local
    limits: [ { name: all, algorithm: fixed_window, limit: 5, per: 1h } ]
)";

std::string check(std::string_view path) {
  return post("/v1/check", R"({"attributes":{"path":")" + std::string(path) +
                               R"(","method":"GET","ip":"203.0.113.9"}})");
}
const std::string& order() {
  static const std::string request = check("/order");
  return request;
}

// Returns the answer without the field Date.
std::string without_date(const Answer& answer) {
  std::string text = answer.head + "\r\n" + answer.body;
  const std::size_t at = text.find("Date: ");
  return at == std::string::npos ? text : text.erase(at, text.find("\r\n", at) + 2 - at);
}

// Returns the remaining quota of the limit of "order" according to the answer.
long remaining_of(const Answer& answer) {
  const std::string_view name = "\"remaining\":";
  const std::size_t at = answer.body.find(name);
  return at == std::string::npos ? -1 : std::stol(answer.body.substr(at + name.size()));
}

class LoopTest : public ::testing::Test {
 protected:
  void TearDown() override { loop_.reset(); }

  Session::Parts session(LoopStores* stores) {
    Limiter& limiter = stores != nullptr ? stores->limiter() : limiter_;
    return {limiter, *manager_, recorder_, denials_, rule_stores(stores, nullptr)};
  }
  void start(Waits waits, std::size_t most = 512) {
    loop_.emplace();
    auto stores = std::make_unique<WaitingStores>(loop_->context());
    stores_ = stores.get();
    stores_->store.waits = waits;
    loop_->open(std::move(stores), session(stores_));
    serve(net::FiberPool::Options{.most = most});
  }
  void start_without_waiting() {
    loop_.emplace();
    loop_->open(nullptr, session(nullptr));
    serve({});
  }
  void serve(const std::optional<net::FiberPool::Options>& fibers) {
    auto listening = net::listen_at(parse_address("unix:" + path_).value(), 1);
    ASSERT_TRUE(listening) << listening.error();
    const auto make = [this] {
      return std::make_unique<PublicHandler>(front_end_parts_, *loop_, access_);
    };
    loop_->add(std::make_unique<http::FrontEnd>(
        http::Options{bounds_, make, fibers},
        net::Acceptor::Parts{loop_->context(), recorder_, warning_writer(log_), connections_,
                             bounds_.connections, loop_clock_},
        std::move(listening->sockets[0])));
    loop_->start();
  }

  WaitingStore& store() { return stores_->store; }
  TestClient connect() const { return TestClient(path_); }
  // Runs `what` in the loop's thread.
  void in_loop(const std::function<void()>& what) {
    std::promise<void> done;
    boost::asio::post(stores_->loop, [&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }
  void release(std::size_t n = 1, bool newest = false) {
    in_loop([&] {
      for (std::size_t i = 0; i < n; ++i) store().release(newest);
    });
  }
  void wait_for(std::size_t requests) {
    wait_until("the requests wait for the store", [&] { return store().under_way == requests; });
  }
  // Lets the time pass for the loop, whose clock does not move by itself.
  void pass(milliseconds time) {
    in_loop([&] { loop_clock_.time += time; });
  }

  TestFolder folder_;
  const std::string path_ = folder_ / "socket";
  net::ManualLoopClock loop_clock_;  // changed in the loop's thread
  testing::ManualClock clock_;
  MemoryStore memory_{{}, clock_};
  Limiter limiter_{memory_};
  std::unique_ptr<EnvoyManager> envoy_ = std::move(*EnvoyManager::open({}));
  std::unique_ptr<RulesManager> manager_ =
      RulesManager::open({folder_.write("rules.yaml", kRules)}).value();
  metrics::Registry registry_;
  metrics::Recorder& recorder_ = registry_.make_recorder();
  Log log_{{.level = LogLevel::kOff}};
  DenialLog denials_{log_};
  TrustedProxies trusted_;
  const Access access_{Access::Reach::kUnixSocket, {}, {}};
  const Config config_;
  net::DescriptorBudget descriptors_;
  Bounds bounds_;
  net::Readiness ready_ = true;
  const FrontEndParts front_end_parts_{
      config_, log_, *envoy_, trusted_, {registry_, ready_}, ready_, loop_clock_, descriptors_};
  std::atomic<std::size_t> connections_ = 0;
  WaitingStores* stores_ = nullptr;
  std::optional<Loop> loop_;
};

TEST_F(LoopTest, AnswersTheSameWhetherItsStoreWaitsOrNot) {
  std::string requests = order() + check("/few") + check("/few") + check("/few") + get("/healthz");
  requests += get("/v1/auth") + post("/v1/check", "[") + get("/nowhere");
  requests += "GET /v1/auth HTTP/1.0\r\nX-Original-URI: /few\r\n\r\n";
  std::vector<std::string> answers;
  for (int turn = 0; turn < 3; ++turn) {
    if (turn == 0) start_without_waiting();
    if (turn == 1) start(Waits::kNot);
    if (turn == 2) start(Waits::kForMs);
    TestClient client = connect();
    client.send(requests);
    std::string all;
    for (Answer answer = client.read(); answer.status != 0; answer = client.read()) {
      all += without_date(answer);
    }
    answers.push_back(all);
    loop_.reset();
    ::unlink(path_.c_str());
  }
  EXPECT_NE(answers[0].find("HTTP/1.1 429"), std::string::npos);
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

TEST_F(LoopTest, AnswersPipelinedRequestsInTheirOrder) {
  start(Waits::kForMs);
  std::vector<TestClient> clients;
  std::string requests;
  constexpr int kRequests = 30;
  for (int i = 0; i < kRequests; ++i) requests += i % 5 == 4 ? get("/healthz") : order();
  for (int i = 0; i < 8; ++i) clients.push_back(connect());
  for (const TestClient& client : clients) client.send(requests);
  for (TestClient& client : clients) {
    long left = 100'001;
    for (int i = 0; i < kRequests; ++i) {
      const Answer answer = client.read();
      ASSERT_EQ(answer.status, 200);
      const long now = remaining_of(answer);
      if (i % 5 == 4) {
        EXPECT_EQ(now, -1);
      } else {
        EXPECT_LT(now, left);
        left = now;
      }
    }
  }
  EXPECT_GT(store().most_under_way, 1U);
}

TEST_F(LoopTest, SendsTheAnswersOfManyPipelinedRequestsInTurns) {
  start(Waits::kNot);
  constexpr long kRequests = 4000;
  TestClient client = connect();
  std::thread sender([&] {
    for (int i = 0; i < kRequests; ++i) client.send(order());
  });
  for (long i = 1; i <= kRequests; ++i) ASSERT_EQ(remaining_of(client.read()), 100'000 - i);
  sender.join();
}

TEST_F(LoopTest, HundredsOfConnectionsMayWaitAtOnce) {
  start(Waits::kForTest);
  std::vector<TestClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(connect());
    clients.back().send(order());
  }
  wait_for(200);
  TestClient other = connect();
  EXPECT_EQ(other.ask(get("/healthz")).status, 200) << "what asks no store does not wait";
  release(200, true);
  for (TestClient& client : clients) EXPECT_EQ(client.read().status, 200);
}

TEST_F(LoopTest, HasAtMostTheConfiguredRequestsInProgress) {
  start(Waits::kForTest, 2);
  std::vector<TestClient> clients;
  for (int i = 0; i < 7; ++i) {
    clients.push_back(connect());
    clients.back().send(order() + order());
  }
  for (int i = 0; i < 14; ++i) {
    wait_until("a request waits for the store", [&] { return store().under_way > 0; });
    release(1, i % 2 == 0);
  }
  for (TestClient& client : clients) {
    EXPECT_EQ(client.read().status, 200);
    EXPECT_EQ(client.read().status, 200);
  }
  EXPECT_EQ(store().most_under_way, 2U);
}

TEST_F(LoopTest, WaitsForEachDecisionOfAnArrayInTurn) {
  start(Waits::kForTest);
  TestClient client = connect();
  const std::string one = R"({"attributes":{"path":"/order"}})";
  client.send(post("/v1/check", "[" + one + "," + one + "," + one + "]"));
  for (std::size_t i = 1; i <= 3; ++i) {
    wait_until("the next decision waits",
               [&] { return store().asked == i && store().under_way == 1; });
    TestClient other = connect();
    EXPECT_EQ(other.ask(post("/v1/check", std::string(2000, 'x'))).status, 400)
        << "which is read into the same buffer";
    release();
  }
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 200);
  for (const char* left : {"99999", "99998", "99997"}) {
    EXPECT_NE(answer.body.find(left), std::string::npos) << answer.body;
  }
}

TEST_F(LoopTest, OutlivesClientsThatLeaveWhileTheyWait) {
  start(Waits::kForTest);
  for (int i = 0; i < 20; ++i) connect().send(i % 2 == 0 ? order() : order() + order() + "GET ");
  wait_for(20);
  EXPECT_EQ(connections_, 20U) << "kept until they have their answers";
  wait_until("all connections are closed", [&] {
    release(1);
    return connections_ == 0;
  });
  TestClient client = connect();
  client.send(order());
  wait_for(1);
  release();
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(LoopTest, AsksNothingMoreForAClientThatIsGone) {
  start(Waits::kForTest);
  connect().send(order() + order() + order() + order());
  wait_for(1);
  wait_until("the connection is closed", [&] {
    release();
    return connections_ == 0;
  });
  EXPECT_EQ(store().asked, 2U) << "it is noticed when the first answer cannot be sent";
}

TEST_F(LoopTest, AnswersRequestsInProgressBeforeItHasDrained) {
  start(Waits::kForTest);
  TestClient client = connect();
  TestClient idle = connect();
  client.send(order() + order());
  wait_for(1);
  wait_until("both are accepted", [&] { return connections_ == 2; });
  std::promise<void> promise;
  std::future<void> drained = promise.get_future();
  loop_->drain([&] { promise.set_value(); });
  wait_until("the idle connection is closed", [&] {
    pass(milliseconds(20));
    return connections_ == 1;
  });
  EXPECT_EQ(idle.read().status, 0) << "closed, as it asks for nothing";
  wait_until("the loop accepts no connection", [&] { return !connect().connected(); });
  EXPECT_EQ(drained.wait_for(milliseconds(0)), std::future_status::timeout);
  release();
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
  EXPECT_EQ(client.read().status, 0);
  client.close();
  // A connection that was made while the listener closed may wait for its timeout.
  wait_until("the loop has drained", [&] {
    pass(milliseconds(20));
    return drained.wait_for(milliseconds(0)) == std::future_status::ready;
  });
}

TEST_F(LoopTest, ClosesSlowClientsButNotThoseThatWait) {
  bounds_.header_timeout = bounds_.body_timeout = milliseconds(20);
  bounds_.idle_timeout = std::chrono::hours(1);
  start(Waits::kForTest);
  TestClient waiting = connect();
  waiting.send(order());
  wait_for(1);
  for (const char* const part :
       {"GET / HTTP/1.1\r\nHost", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"}) {
    TestClient slow = connect();
    slow.send(part);
    wait_until("it is refused", [&] {
      pass(milliseconds(20));
      return slow.has_answer();
    });
    EXPECT_EQ(slow.read().status, 408);
    slow.close();
    wait_until("it is closed", [&] { return connections_ == 1; });
  }
  release();
  EXPECT_EQ(waiting.read().status, 200);
  EXPECT_EQ(waiting.ask(get("/healthz")).status, 200);
}

TEST_F(LoopTest, ClosesAClientThatDoesNotReadItsAnswers) {
  bounds_.write_timeout = milliseconds(20);
  start(Waits::kForTest);
  const std::string one = R"({"attributes":{"path":"/order"}})";
  std::string array = "[" + one;
  for (int i = 0; i < 200; ++i) array += "," + one;
  array += "]";
  TestClient client = connect();
  client.send(order());
  for (int i = 0; i < 14; ++i) client.send(post("/v1/check", array));  // answers of about 400 KB
  wait_for(1);
  store().waits = Waits::kNot;
  release();
  wait_until("the connection is closed", [&] {
    pass(milliseconds(20));
    return connections_ == 0;
  });
  EXPECT_EQ(client.read().status, 200) << "what was sent before is there";
}

TEST_F(LoopTest, SwitchesToNewRulesWhileRequestsWait) {
  start(Waits::kForTest);
  TestClient before = connect();
  before.send(order());
  wait_for(1);
  const std::string changed =
      std::string(kRules).replace(std::string_view(kRules).find("100000"), 6, "500000");
  ASSERT_TRUE(manager_->replace(changed, "test"));
  loop_->follow_rules();
  in_loop([] {});
  TestClient after = connect();
  after.send(order());
  wait_for(2);
  release(1, true);
  EXPECT_EQ(remaining_of(after.read()), 499'999);
  release();
  EXPECT_EQ(before.read().status, 200);
  EXPECT_NE(registry_.text().find(R"(sluice_requests_total{rule="order",outcome="allowed",)"
                                  R"(reason="ok"} 2)"),
            std::string::npos)
      << registry_.text();
}

TEST_F(LoopTest, DurationIncludesTheWait) {
  start(Waits::kForTest);
  TestClient client = connect();
  client.send(order());
  wait_for(1);
  pass(milliseconds(20));
  release();
  EXPECT_EQ(client.read().status, 200);
  const std::string text = registry_.text();
  EXPECT_NE(text.find(R"(front_end="check",le="0.016384"} 0)"), std::string::npos) << text;
}

TEST_F(LoopTest, AsksTheStoresThatRulesName) {
  start(Waits::kNot);
  TestClient client = connect();
  EXPECT_EQ(client.ask(check("/trial")).status, 200);
  EXPECT_EQ(stores_->shadow_store.asked, 1U);
  EXPECT_EQ(store().asked, 0U);
  in_loop([&] { store().stop(); });
  EXPECT_EQ(client.ask(check("/local")).status, 200);
  EXPECT_EQ(store().asked, 1U);
  EXPECT_EQ(stores_->local_store.asked, 1U);
}

TEST_F(LoopTest, StopsWhileRequestsWait) {
  start(Waits::kForTest, 3);
  std::vector<TestClient> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(connect());
    clients.back().send(order() + order());
  }
  wait_for(3);
  loop_->stop();
  EXPECT_EQ(store().under_way, 0U);
}

TEST_F(LoopTest, StopsIfItNeverRan) {
  Loop loop;
  auto stores = std::make_unique<WaitingStores>(loop.context());
  const Session::Parts parts = session(stores.get());
  loop.open(std::move(stores), parts);
}

}  // namespace
}  // namespace sluice::server::loop_test
