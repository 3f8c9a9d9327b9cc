#include "server/net/listener.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/net/test_listening.h"

namespace sluice::server::net {
namespace {

// A connection that does nothing. It records what its listener does.
class FakeConnection {
 public:
  struct Shared;
  struct Options {
    std::function<void()> make = {};
    bool fibers = false;
    Shared** shared;  // set to that of the listener
  };
  struct Handlers {
    Handlers(const std::function<void()>&, bool) {}
    void follow_rules() {}
  };
  struct Shared {
    Shared(const Acceptor::Parts&, const Options& options, Handlers&) { *options.shared = this; }

    bool draining = false;
    bool no_resources = false;    // open() fails
    bool closes_on_tick = false;  // the first connection that is ticked
    std::vector<FakeConnection*> opened;
    int ticks = 0;
    int drains = 0;
    int destroyed = 0;
    SteadyTime time{};  // of the last event
    std::function<void(FakeConnection&)> closed;
    std::function<void(std::string_view what, std::string_view why)> complain;
  };
  static constexpr std::string_view kRefusal = "full";

  static std::unique_ptr<FakeConnection> open(Accepted& accepted, Shared& shared,
                                              boost::system::error_code& why) {
    auto made = std::make_unique<FakeConnection>(accepted.descriptor, shared);
    shared.time = accepted.since;
    if (shared.no_resources) {
      why.assign(ENOMEM, boost::system::system_category());
      return nullptr;
    }
    shared.opened.push_back(made.get());
    return made;
  }
  FakeConnection(int descriptor, Shared& shared) : descriptor_(descriptor), shared_(shared) {}
  ~FakeConnection() {
    ::close(descriptor_);
    ++shared_.destroyed;
  }
  FakeConnection(const FakeConnection&) = delete;
  FakeConnection& operator=(const FakeConnection&) = delete;

  void tick(SteadyTime now) {
    ++ticks;
    ++shared_.ticks;
    shared_.time = now;
    if (std::exchange(shared_.closes_on_tick, false)) close();
  }
  void drain(SteadyTime now) {
    ++shared_.drains;
    shared_.time = now;
  }
  void close() { shared_.closed(*this); }
  bool has_no_delay() const {
    int on = 0;
    socklen_t size = sizeof on;
    ::getsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, &size);
    return on != 0;
  }

  std::size_t place = 0;
  int ticks = 0;

 private:
  const int descriptor_;
  Shared& shared_;
};

class ListenerTest : public ListeningTest {
 protected:
  void start(std::size_t most = 10) {
    listener_.emplace(FakeConnection::Options{.shared = &shared_}, parts(most), socket());
  }
  void run_until_open(std::size_t count) {
    run_until([&] { return shared_->opened.size() == count; });
  }

  FakeConnection::Shared* shared_ = nullptr;
  std::optional<Listener<FakeConnection>> listener_;
};

TEST_F(ListenerTest, OpensAConnectionAtTheTimeOfItsClockWithoutDelayOfSmallPackets) {
  start();
  const TestSocket client(address_);
  run_until_open(1);
  EXPECT_EQ(shared_->time, clock_.time);
  EXPECT_TRUE(shared_->opened[0]->has_no_delay());
  EXPECT_EQ(shared_->drains, 0);
}

TEST_F(ListenerTest, RefusesConnectionsOverTheMostWithTheTextOfTheProtocol) {
  start(1);
  const TestSocket first(address_);
  const TestSocket second(address_);
  run_until([&] { return !warnings_.empty(); });
  EXPECT_EQ(second.read_all(), "full");
}

TEST_F(ListenerTest, DropsAConnectionThatCannotBeOpened) {
  start();
  shared_->no_resources = true;
  const TestSocket client(address_);
  run_until([&] { return !warnings_.empty(); });
  EXPECT_EQ(warnings_[0], "a connection was dropped: Cannot allocate memory");
  EXPECT_EQ(connections_, 0U);
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(ListenerTest, TicksEachConnectionOnceEvenIfOneClosesMeanwhile) {
  start();
  const TestSocket first(address_);
  const TestSocket second(address_);
  const TestSocket third(address_);
  run_until_open(3);
  const std::vector<FakeConnection*> all = shared_->opened;
  shared_->closes_on_tick = true;
  clock_.time += std::chrono::seconds(5);
  run_until([&] { return shared_->ticks > 0; });
  for (const FakeConnection* const one : all) EXPECT_EQ(one->ticks, 1);
  EXPECT_EQ(shared_->time, clock_.time);
  EXPECT_EQ(connections_, 2U);
}

TEST_F(ListenerTest, DestroysAClosedConnectionInALaterTurnOfTheLoop) {
  start();
  const TestSocket first(address_);
  const TestSocket second(address_);
  run_until_open(2);
  shared_->opened[0]->close();
  shared_->opened[1]->close();
  EXPECT_EQ(shared_->destroyed, 0);
  EXPECT_EQ(connections_, 0U);
  run_until([&] { return shared_->destroyed > 0; });
  EXPECT_EQ(shared_->destroyed, 2);
}

TEST_F(ListenerTest, DrainsItsConnectionsAndThoseThatTheKernelHadQueued) {
  start();
  const TestSocket first(address_);
  run_until_open(1);
  const TestSocket queued(address_);
  bool drained = false;
  listener_->drain([&] { drained = true; });
  run_until_open(2);
  run_until([&] { return shared_->drains > 0; });
  EXPECT_FALSE(listens()) << "a client that is asked to leave must not find the socket";
  EXPECT_TRUE(shared_->draining);
  EXPECT_EQ(shared_->drains, 2);
  shared_->opened[0]->close();
  run_until([&] { return shared_->destroyed == 1; });
  run_ready();
  EXPECT_FALSE(drained) << "a connection is open";
  shared_->opened[1]->close();
  run_until([&] { return drained; });
}

TEST_F(ListenerTest, WithoutConnectionsDrainsOnceTheSocketIsClosed) {
  start();
  bool drained = false;
  listener_->drain([&] { drained = true; });
  EXPECT_FALSE(drained);
  run_until([&] { return drained; });
  EXPECT_FALSE(TestSocket(address_).connected());
}

}  // namespace
}  // namespace sluice::server::net
