#include "server/runtime/handover.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "server/net/socket_address.h"
#include "server/net/test_listening.h"

namespace sluice::server {
namespace {

class HandoverTest : public ::testing::Test {
 protected:
  ~HandoverTest() override {
    main_.stop();
    if (thread_.joinable()) thread_.join();
    handover_.reset();
    ::unlink(path_.c_str());
  }
  void start(std::vector<int> sockets, bool ends_first = false) {
    handover_.emplace(
        main_, log_, [sockets] { return sockets; },
        [this] {
          ++handed_over_;
          main_.stop();
        },
        [ends_first] { return ends_first; });
    ASSERT_TRUE(handover_->open(path_));
    EXPECT_NE(::access(path_.c_str(), F_OK), 0);
    ASSERT_TRUE(handover_->publish());
    thread_ = std::thread([this] { main_.run(); });
  }

  const std::string path_ =
      ::testing::TempDir() + "handover" + std::to_string(::getpid()) + ".sock";
  Log log_{LogOptions{.level = LogLevel::kOff}};
  boost::asio::io_context main_{1};
  std::optional<Handover> handover_;
  std::thread thread_;
  int handed_over_ = 0;
};

TEST_F(HandoverTest, WithoutAPredecessorThereIsNone) {
  const auto none = Predecessor::find(path_);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
}

TEST_F(HandoverTest, ASignalEndsTheWaitForTheSockets) {
  const auto address = net::SocketAddress::of_unix(path_);
  const int silent = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(silent, address->get(), address->size()), 0);
  ASSERT_EQ(::listen(silent, 1), 0);
  const boost::asio::signal_set caught(main_, SIGTERM);  // as a server does at its start
  int peer = -1;
  std::thread signals([&] {
    peer = ::accept(silent, nullptr, nullptr);
    ::kill(::getpid(), SIGTERM);
  });
  const auto found = Predecessor::find(path_);
  signals.join();
  ::close(peer);
  ::close(silent);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().find("a signal ended the wait for its sockets"), std::string::npos)
      << found.error();
}

TEST_F(HandoverTest, ASuccessorReceivesEverySocketAndTheServerStops) {
  const auto listening = net::listen_at({Address::Kind::kTcp, "127.0.0.1", 0, {}}, 1).value();
  start(std::vector<int>(300, listening.sockets[0].descriptor()));  // more than a packet has
  auto found = Predecessor::find(path_);
  ASSERT_TRUE(found) << found.error();
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->take_sockets().size(), 300U);
  EXPECT_TRUE((*found)->succeed());
  thread_.join();
  EXPECT_EQ(handed_over_, 1);
  EXPECT_EQ(::access(path_.c_str(), F_OK), 0) << "the successor replaces it";
}

TEST_F(HandoverTest, ASuccessorBeginsAfterTheEndOfAServerThatKeepsItsCounters) {
  start({}, true);
  auto found = Predecessor::find(path_);
  ASSERT_TRUE(*found);
  std::atomic<bool> ended = false;
  bool began_after = false;
  std::thread successor([&] { began_after = *(*found)->succeed() && ended; });
  thread_.join();
  EXPECT_EQ(handed_over_, 1);
  EXPECT_EQ(::access(path_.c_str(), F_OK), 0) << "the successor replaces it";
  ended = true;
  EXPECT_TRUE(handover_->finish());
  successor.join();
  EXPECT_TRUE(began_after);
  EXPECT_FALSE(handover_->finish()) << "once";
}

TEST_F(HandoverTest, ASuccessorThatEndsBeforeItIsReadyChangesNothing) {
  start({});
  ASSERT_NE(*Predecessor::find(path_), nullptr);
  auto next = Predecessor::find(path_);
  ASSERT_TRUE(*next);
  EXPECT_EQ(handed_over_, 0);
  EXPECT_TRUE((*next)->succeed());
  thread_.join();
  EXPECT_EQ(handed_over_, 1);
}

TEST_F(HandoverTest, OnlyOneOfTwoSuccessorsSucceeds) {
  start({});
  auto first = Predecessor::find(path_);
  auto second = Predecessor::find(path_);
  ASSERT_TRUE(*first && *second);
  const auto replaced = (*first)->succeed();
  ASSERT_FALSE(replaced);
  EXPECT_NE(replaced.error().find("it has another successor"), std::string::npos)
      << replaced.error();
  EXPECT_TRUE((*second)->succeed());
  thread_.join();
  EXPECT_EQ(handed_over_, 1);
}

TEST_F(HandoverTest, TheSocketIsForThisUserOnlyAndRemovedAtTheEnd) {
  start({});
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0077U, 0U);
  main_.stop();
  thread_.join();
  handover_.reset();
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(HandoverTest, AFileThatIsNoSocketIsNotReplaced) {
  std::ofstream(path_) << "text";
  Handover handover(main_, log_, [] { return std::vector<int>(); }, [] {});
  EXPECT_EQ(handover.open(path_).error(),
            "drain.handover: cannot listen at " + path_ + ": File exists");
  EXPECT_EQ(*Predecessor::find(path_), nullptr) << "no server listens there";
}

}  // namespace
}  // namespace sluice::server
