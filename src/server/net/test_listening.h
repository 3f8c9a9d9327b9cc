#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics.h"
#include "server/net/acceptor.h"
#include "server/net/address.h"
#include "server/net/listening_socket.h"
#include "server/net/socket_address.h"
#include "server/net/test_connection_state.h"

namespace sluice::server::net {

// A client on a blocking TCP socket. Each operation takes at most 30 seconds.
class TestSocket {
 public:
  explicit TestSocket(const SocketAddress& server)
      : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{30, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = ::connect(descriptor_, server.get(), server.size()) == 0;
  }
  ~TestSocket() { ::close(descriptor_); }
  TestSocket(const TestSocket&) = delete;
  TestSocket& operator=(const TestSocket&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Returns everything that the server sends until it closes.
  std::string read_all() const {
    std::string all;
    char some[1024];
    ssize_t got = 0;
    while ((got = ::recv(descriptor_, some, sizeof some, 0)) > 0) {
      all.append(some, static_cast<std::size_t>(got));
    }
    EXPECT_EQ(got, 0) << "the server did not close";
    return all;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

// A listening socket on loopback, and an event loop that the test runs.
class ListeningTest : public ::testing::Test {
 protected:
  ListeningTest() { address_.read_name_of(descriptor_); }

  Acceptor::Parts parts(std::size_t most) {
    return {.loop = loop_,
            .recorder = registry_.make_recorder(),
            .warn = [this](auto what, auto why) { warnings_.push_back(join(what, why)); },
            .connections = connections_,
            .most = most,
            .clock = clock_};
  }
  ListeningSocket socket() { return std::move(listening_.sockets.front()); }

  // Runs the loop until the condition holds; fails after 30 seconds without an event.
  template <typename Condition>
  void run_until(Condition condition) {
    while (!condition()) {
      ASSERT_GT(loop_.run_one_for(std::chrono::seconds(30)), 0U) << "the event did not happen";
    }
  }
  // Runs what is ready to run.
  void run_ready() { loop_.poll(); }
  // Returns whether the listening socket is open.
  bool listens() const { return ::fcntl(descriptor_, F_GETFD) != -1; }
  // Returns whether the metrics have that line.
  bool counts(std::string_view line) const {
    return registry_.text().find(std::string(line) + "\n") != std::string::npos;
  }

  boost::asio::io_context loop_{1};
  ManualLoopClock clock_;
  metrics::Registry registry_;
  std::atomic<std::size_t> connections_{0};
  std::vector<std::string> warnings_;
  Listening listening_ = listen_at({Address::Kind::kTcp, "127.0.0.1", 0, {}}, 1).value();
  SocketAddress address_;

 private:
  const int descriptor_ = listening_.sockets.front().descriptor();
  static std::string join(std::string_view what, std::string_view why) {
    return std::string(what) + (why.empty() ? "" : ": ") + std::string(why);
  }
};

}  // namespace sluice::server::net
