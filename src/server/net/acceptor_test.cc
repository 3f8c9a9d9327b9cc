#include "server/net/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/net/test_listening.h"

namespace sluice::server::net {
namespace {

using std::chrono::milliseconds;

class AcceptorTest : public ListeningTest {
 protected:
  ~AcceptorTest() override {
    for (const int descriptor : accepted_) ::close(descriptor);
  }
  void start(std::size_t most, std::string_view refusal = {}) {
    Acceptor::Parts all = parts(most);
    all.refusal = refusal;
    start(all, socket());
  }
  void start(const Acceptor::Parts& all, ListeningSocket at) {
    acceptor_.emplace(all, std::move(at), [this](int descriptor, const SocketAddress& peer) {
      accepted_.push_back(descriptor);
      peer_ = peer.host();
    });
  }

  std::vector<int> accepted_;
  std::string peer_;
  std::optional<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, HandsOverANonBlockingDescriptorAndCountsIt) {
  start(10);
  const TestSocket client(address_);
  run_until([&] { return !accepted_.empty(); });
  EXPECT_EQ(::fcntl(accepted_[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  EXPECT_EQ(::fcntl(accepted_[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(peer_, "127.0.0.1");
  EXPECT_EQ(acceptor_->family(), AF_INET);
  EXPECT_EQ(connections_, 1U);
  EXPECT_TRUE(counts("sluice_connections_accepted_total 1")) << registry_.text();
  acceptor_->closed();
  EXPECT_EQ(connections_, 0U);
}

TEST_F(AcceptorTest, RefusesAConnectionOverTheMostWithTheText) {
  start(1, "too many\n");
  const TestSocket first(address_);
  const TestSocket second(address_);
  run_until([&] { return !warnings_.empty(); });
  EXPECT_EQ(second.read_all(), "too many\n");
  EXPECT_EQ(accepted_.size(), 1U);
  EXPECT_EQ(connections_, 1U);
  EXPECT_EQ(warnings_[0], "too many connections at once: one was refused; see bounds.connections");
  acceptor_->closed();
  const TestSocket third(address_);
  run_until([&] { return accepted_.size() == 2; });
  EXPECT_EQ(connections_, 1U);
}

TEST(DescriptorBudget, LeavesEachListenerItsShare) {
  DescriptorBudget budget;
  DescriptorBudget::Share& http = budget.add_listener(false);
  DescriptorBudget::Share& resp = budget.add_listener(false);
  DescriptorBudget::Share& admin = budget.add_listener(true);
  EXPECT_TRUE(budget.take(http)) << "no bound yet";
  budget.set(10, 2);  // shares of 2, and 4 for all
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(budget.take(http)) << i;
  EXPECT_FALSE(budget.take(http));
  EXPECT_EQ(budget.most(http), 6U);
  EXPECT_EQ(budget.most(resp), 2U);
  for (auto* const one : {&resp, &admin}) {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(budget.take(*one)) << i;
    EXPECT_FALSE(budget.take(*one));
  }
  budget.give_back(http);
  EXPECT_EQ(budget.most(admin), 3U);
  EXPECT_TRUE(budget.take(admin)) << "what is left belongs to all";
  EXPECT_FALSE(budget.take(resp));
  budget.give_back(admin);
  budget.give_back(admin);
  EXPECT_TRUE(budget.take(resp));
  EXPECT_FALSE(budget.take(http)) << "one is left to the administration";
}

TEST_F(AcceptorTest, LeavesTheReserveOfTheDescriptorsToTheAdministration) {
  DescriptorBudget budget;
  Acceptor::Parts all = parts(10);
  all.descriptors = &budget;
  all.share = &budget.add_listener(false);
  DescriptorBudget::Share& administration = budget.add_listener(true);
  budget.set(2, 1);
  all.refusal = "too many\n";
  start(all, socket());
  const TestSocket first(address_);
  const TestSocket second(address_);
  run_until([&] { return !warnings_.empty(); });
  EXPECT_EQ(second.read_all(), "too many\n");
  EXPECT_EQ(accepted_.size(), 1U);
  EXPECT_EQ(connections_, 1U);
  EXPECT_TRUE(counts("sluice_connections_refused_total{reason=\"out_of_descriptors\"} 1"))
      << registry_.text();
  EXPECT_TRUE(budget.take(administration));
  EXPECT_FALSE(budget.take(administration));
  budget.give_back(administration);
  acceptor_->closed();
  const TestSocket third(address_);
  run_until([&] { return accepted_.size() == 2; });
}

TEST_F(AcceptorTest, WarnsAtMostOnceASecond) {
  start(1);
  acceptor_->complain("a", 0);
  acceptor_->complain("b", 0);
  clock_.time += milliseconds(999);
  acceptor_->complain("c", 0);
  clock_.time += milliseconds(1);
  acceptor_->complain("d", EMFILE);
  EXPECT_EQ(warnings_, (std::vector<std::string>{"a", "d: Too many open files"}));
}

TEST_F(AcceptorTest, WithoutDescriptorsDropsTheConnectionAndAcceptsTheNextOnceThereAreSome) {
  start(10);
  run_ready();
  const TestSocket client(address_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  run_until([&] { return !warnings_.empty(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client.read_all(), "");
  EXPECT_EQ(warnings_[0],
            "out of file descriptors: a connection was dropped; raise the limit (ulimit -n)");
  EXPECT_EQ(connections_, 0U);
  const TestSocket other(address_);
  run_until([&] { return !accepted_.empty(); });
  EXPECT_EQ(connections_, 1U);
}

TEST_F(AcceptorTest, StopAcceptsWhatTheKernelHasQueuedAndThenClosesThePort) {
  start(10);
  run_ready();
  const TestSocket first(address_);
  const TestSocket second(address_);
  bool stopped = false;
  acceptor_->stop(Queued::kAccept, [&] { stopped = true; });
  EXPECT_TRUE(acceptor_->open());
  run_until([&] { return stopped; });
  EXPECT_EQ(accepted_.size(), 2U);
  EXPECT_FALSE(acceptor_->open());
  EXPECT_FALSE(TestSocket(address_).connected());
}

TEST_F(AcceptorTest, StopLeavesWhatTheKernelHasQueuedToACopyOfTheSocket) {
  ListeningSocket own = socket();
  const int copy = ::dup(own.descriptor());
  start(parts(10), std::move(own));
  run_ready();
  const TestSocket client(address_);
  bool stopped = false;
  acceptor_->stop(Queued::kLeave, [&] { stopped = true; });
  run_until([&] { return stopped; });
  EXPECT_TRUE(accepted_.empty());
  EXPECT_FALSE(acceptor_->open());
  const TestSocket later(address_);
  EXPECT_TRUE(later.connected());
  run_ready();
  EXPECT_TRUE(accepted_.empty()) << "the loop no longer waits for it";
  for (int i = 0; i < 2; ++i) accepted_.push_back(::accept(copy, nullptr, nullptr));
  EXPECT_GE(accepted_[0], 0);
  EXPECT_GE(accepted_[1], 0);
  ::close(copy);
}

}  // namespace
}  // namespace sluice::server::net
