#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "server/net/address.h"
#include "server/net/test_listening.h"
#include "server/protocol/http/connection.h"
#include "server/rules/test_folder.h"
#include "server/runtime/front_ends.h"
#include "server/runtime/test_client.h"
#include "server/runtime/test_waiting_stores.h"
#include "tests/support/wait_until.h"

namespace sluice::server {
namespace {

constexpr const char* kRules = R"(version: 1
rules:
  - name: order
    limits:
      - { name: a, algorithm: fixed_window, limit: 7, per: 1h }
      - { name: b, algorithm: gcra, limit: 3, per: 1h }
)";

// Runs the administration in a loop of its own.
class AdminWaits : public ::testing::Test {
 protected:
  void SetUp() override {
    stores_.store.waits = WaitingStore::Waits::kForTest;
    auto listening = net::listen_at(parse_address("unix:" + path_).value(), 1);
    ASSERT_TRUE(listening) << listening.error();
    const auto make = [this] {
      return std::make_unique<AdminHandler>(AdminEndpoint{.rules = *manager_,
                                                          .limiter = stores_.limiter(),
                                                          .token = token_,
                                                          .status = [] { return ServerStatus{}; }},
                                            Operations(registry_, ready_, &worker_).in(&sleeps_),
                                            access_, recorder_, log_);
    };
    front_end_.emplace(http::Options{bounds_, make, kAdminFibers},
                       net::Acceptor::Parts{main_, recorder_, warning_writer(log_), connections_,
                                            bounds_.connections, net::LoopClock::system()},
                       std::move(listening->sockets[0]));
    thread_ = std::thread([this] {
      main_.run();
      stores_.stop();
      sleeps_.stop();
    });
  }
  void TearDown() override {
    main_.stop();
    thread_.join();
    front_end_.reset();
  }
  void wait_for_one() {
    testing::wait_until("a request waits for the store",
                        [this] { return stores_.store.under_way == 1; });
  }
  void release() {
    boost::asio::post(main_, [this] { stores_.store.release(); });
    testing::wait_until("it waits no longer", [this] { return stores_.store.under_way == 0; });
  }

  TestFolder folder_;
  const std::string path_ = folder_ / "socket";
  std::unique_ptr<RulesManager> manager_ =
      RulesManager::open({folder_.write("rules.yaml", kRules)}).value();
  AdminToken token_ = AdminToken::from({"", ""}).value();
  const Access access_{Access::Reach::kUnixSocket, {}, {}};
  metrics::Registry registry_;
  metrics::Recorder& recorder_ = registry_.make_recorder();
  Log log_{{.level = LogLevel::kOff}};
  Bounds bounds_;
  net::Readiness ready_ = true;
  std::atomic<std::size_t> connections_ = 0;
  boost::asio::io_context main_{1};
  net::FiberSleeps sleeps_{main_};
  MetricsWorker worker_{registry_};
  WaitingStores stores_{main_};
  std::optional<http::FrontEnd> front_end_;
  std::thread thread_;
};

TEST_F(AdminWaits, WaitsForTheStoreWhileItsLoopContinues) {
  TestClient client(path_);
  client.send(get("/v1/keys?rule=order"));
  wait_for_one();
  TestClient other(path_);
  EXPECT_EQ(other.ask(get("/healthz")).status, 200);
  EXPECT_EQ(other.ask(post("/v1/rules/validate", kRules)).status, 200);
  stores_.store.waits = WaitingStore::Waits::kNot;
  release();
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(R"("remaining":7)"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find(R"("remaining":3)"), std::string::npos) << answer.body;
  EXPECT_EQ(stores_.store.asked, 2U);
}

TEST_F(AdminWaits, AnswersOthersWhileManyWaitForTheMetrics) {
  std::atomic<int> begun = 0;
  std::atomic<bool> may_end = false;
  registry_.add("sluice_test", "Takes until the test ends it.", [&] {
    ++begun;
    testing::wait_until("the test lets the text end", [&] { return may_end.load(); });
    return 7.;
  });
  std::deque<TestClient> clients;
  for (std::size_t i = 0; i < MetricsWorker::kMostWaiting; ++i) {
    clients.emplace_back(path_).send(get("/metrics"));
    testing::wait_until("a text is begun", [&] { return begun > 0; });
  }
  TestClient other(path_);
  EXPECT_EQ(other.ask(get("/healthz")).status, 200);
  EXPECT_EQ(other.ask(post("/v1/rules/validate", kRules)).status, 200);
  may_end = true;
  for (TestClient& client : clients) EXPECT_EQ(client.read().status, 200);
}

TEST_F(AdminWaits, EndsWhileARequestWaits) {
  TestClient client(path_);
  client.send(get("/v1/keys?rule=order"));
  wait_for_one();
}

}  // namespace
}  // namespace sluice::server
