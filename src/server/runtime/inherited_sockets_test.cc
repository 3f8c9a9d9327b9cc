#include "server/runtime/handover.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "server/net/socket_address.h"
#include "server/net/test_listening.h"

namespace sluice::server::net {
namespace {

Address loopback(std::uint16_t port) { return {Address::Kind::kTcp, "127.0.0.1", port, {}}; }

std::uint16_t port_of(const ListeningSocket& socket) {
  SocketAddress address;
  address.read_name_of(socket.descriptor());
  return address.port();
}

class InheritedSocketsTest : public ::testing::Test {
 protected:
  InheritedSocketsTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data()), 0);
  }
  ~InheritedSocketsTest() override {
    for (const int end : ends_) ::close(end);
  }
  // Passes copies of the sockets on, as if to another process.
  InheritedSockets pass(const Listening& listening) {
    std::vector<int> all;
    for (const auto& socket : listening.sockets) all.push_back(socket.descriptor());
    EXPECT_EQ(send_packet(ends_[0], "sockets", all), 0);
    auto packet = receive_packet(ends_[1]);
    EXPECT_TRUE(packet && packet->text == "sockets");
    return std::move(packet->sockets);
  }

  std::array<int, 2> ends_{};
};

TEST_F(InheritedSocketsTest, ListensWithTheInheritedSocketsOfTheAddress) {
  const Listening own = listen_at(loopback(0), 2).value();
  const Listening other = listen_at(loopback(0), 1).value();
  const std::uint16_t port = port_of(own.sockets[0]);
  InheritedSockets inherited = pass(own);
  for (auto& socket : pass(other)) inherited.push_back(std::move(socket));
  ASSERT_EQ(inherited.size(), 3U);
  EXPECT_FALSE(listen_at(loopback(port), 2)) << "the address is in use";
  const Listening taken = listen_at(loopback(port), 2, inherited).value();
  ASSERT_EQ(taken.sockets.size(), 2U);
  EXPECT_EQ(port_of(taken.sockets[0]), port);
  EXPECT_EQ(port_of(taken.sockets[1]), port);
  EXPECT_EQ(taken.name, own.name);
  EXPECT_TRUE(taken.loopback);
  ASSERT_EQ(inherited.size(), 1U);
  EXPECT_EQ(port_of(inherited[0]), port_of(other.sockets[0]));
}

TEST_F(InheritedSocketsTest, SeveralLoopsShareAnInheritedSocketButEachSocketNeedsALoop) {
  const Listening own = listen_at(loopback(0), 2).value();
  const std::uint16_t port = port_of(own.sockets[0]);
  InheritedSockets inherited = pass(own);
  EXPECT_EQ(listen_at(loopback(port), 5, inherited).value().sockets.size(), 5U);
  inherited = pass(own);
  EXPECT_EQ(listen_at(loopback(port), 1, inherited).error(),
            "cannot listen at " + own.name +
                ": another process opened 2 sockets for it, more than the 1 threads of this one");
}

TEST_F(InheritedSocketsTest, AnInheritedUnixSocketIsFoundByItsPath) {
  const std::string path = ::testing::TempDir() + "inherited" + std::to_string(::getpid());
  const Address address{Address::Kind::kUnix, {}, 0, path};
  const Listening own = listen_at(address, 1).value();
  EXPECT_TRUE(own.removes_unix_path);
  InheritedSockets inherited = pass(own);
  const Listening taken = listen_at(address, 3, inherited).value();
  EXPECT_EQ(taken.sockets.size(), 3U);
  EXPECT_EQ(taken.unix_path, path);
  EXPECT_TRUE(taken.removes_unix_path);
  EXPECT_TRUE(inherited.empty());
  ::unlink(path.c_str());
}

TEST_F(InheritedSocketsTest, DescriptorsThatDoNotListenAreClosed) {
  const int any = ::dup(ends_[0]);
  EXPECT_EQ(send_packet(ends_[0], "sockets", std::vector{any}), 0);
  ::close(any);
  const int before = ::dup(0);
  ::close(before);
  EXPECT_TRUE(receive_packet(ends_[1])->sockets.empty());
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(before, after);
}

TEST_F(InheritedSocketsTest, ActivatedSocketsAreOnlyThoseForThisProcess) {
  const Listening own = listen_at(loopback(0), 1).value();
  const int saved = ::fcntl(3, F_DUPFD_CLOEXEC, 10);  // what the test has there, if anything
  ASSERT_EQ(::dup2(own.sockets[0].descriptor(), 3), 3);
  ::fcntl(3, F_SETFL, ::fcntl(3, F_GETFL) & ~O_NONBLOCK);
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", "1", 1);
  EXPECT_TRUE(take_activated_sockets().empty());
  EXPECT_EQ(::getenv("LISTEN_FDS"), nullptr) << "it is not for the children either";
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  {
    const InheritedSockets taken = take_activated_sockets();
    ASSERT_EQ(taken.size(), 1U);
    EXPECT_EQ(taken[0].descriptor(), 3);
    EXPECT_EQ(taken[0].family(), AF_INET);
    EXPECT_NE(::fcntl(3, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(3, F_GETFD) & FD_CLOEXEC, 0);
  }
  if (saved >= 0) {
    ::dup2(saved, 3);
    ::close(saved);
  }
}

}  // namespace
}  // namespace sluice::server::net
