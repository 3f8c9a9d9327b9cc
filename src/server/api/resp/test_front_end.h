#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/api/resp/test_handler.h"
#include "server/net/address.h"
#include "server/net/fiber_sleep.h"
#include "server/net/test_listening.h"
#include "server/protocol/resp/connection.h"
#include "server/runtime/test_waiting_stores.h"

namespace sluice::server::resp {

// A RESP front end at a Unix socket, in a loop of its own.
class TestFrontEnd {
 public:
  struct Options {
    Bounds bounds = {};
    std::vector<KnownClient> users = {};
    std::optional<WaitingStore::Waits> waits = {};  // nothing: the store does not wait
    std::size_t fibers = 8;
    bool changes_elsewhere = false;  // RL.OVERRIDE waits until a test runs `elsewhere`
  };

  TestFrontEnd() : TestFrontEnd(Options{}) {}
  explicit TestFrontEnd(const Options& options) : bounds(options.bounds) {
    users = Users(options.users);
    if (options.waits) {
      stores.emplace(loop);
      stores->store.waits = *options.waits;
    }
    auto listening = net::listen_at({Address::Kind::kUnix, {}, 0, path}, 1).value();
    resp::Options of_front_end{.bounds = bounds,
                               .users = users,
                               .last_id = last_id,
                               .make = [this, changes_elsewhere = options.changes_elsewhere] {
                                 const net::LoopClock& clock = net::LoopClock::system();
                                 CommandHandler::Parts made{session(), users,       clock,
                                                            {},        clock.now(), connections};
                                 made.overrides = parts.overrides.get();
                                 if (changes_elsewhere) {
                                   made.run_elsewhere = [this](const auto& change) {
                                     net::run_elsewhere(elsewhere, sleeps, change);
                                   };
                                 }
                                 return std::make_unique<CommandHandler>(made);
                               }};
    if (options.changes_elsewhere) of_front_end.fibers_apart = net::FiberPool::Options{.most = 2};
    if (stores) of_front_end.fibers = net::FiberPool::Options{.most = options.fibers};
    front_end.emplace(
        of_front_end,
        net::Acceptor::Parts{loop, parts.registry.make_recorder(), warning_writer(parts.log),
                             connections, bounds.connections, net::LoopClock::system()},
        std::move(listening.sockets[0]));
    thread = std::thread([this] { loop.run(); });
  }
  ~TestFrontEnd() {
    on_loop([this] {
      if (stores) stores->stop();
      sleeps.stop();
      loop.stop();
    });
    thread.join();
  }

  // Runs `what` in the loop and waits for its end.
  void on_loop(const std::function<void()>& what) {
    std::promise<void> done;
    boost::asio::post(loop, [&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }
  Session::Parts session() {
    metrics::Recorder& recorder = parts.registry.make_recorder();
    if (!stores) return {parts.limiter, *parts.manager, recorder, parts.denials};
    return {stores->limiter(),
            *parts.manager,
            recorder,
            parts.denials,
            {stores->shadow(), stores->local()}};
  }

  TestCommands parts;
  const Bounds bounds;
  std::string path = parts.folder / "resp.sock";
  Users users;
  std::atomic<std::uint64_t> last_id{0};
  std::atomic<std::size_t> connections{0};
  boost::asio::io_context loop{1};
  boost::asio::io_context elsewhere{1};
  net::FiberSleeps sleeps{loop};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      loop.get_executor()};
  std::optional<WaitingStores> stores;
  std::optional<FrontEnd> front_end;
  std::thread thread;
};

// A blocking client. Each operation takes at most 30 seconds.
class TestPeer {
 public:
  explicit TestPeer(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    const timeval limit{30, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address),  // NOLINT
                        sizeof address),
              0);
  }
  ~TestPeer() { close(); }
  TestPeer(const TestPeer&) = delete;
  TestPeer& operator=(const TestPeer&) = delete;

  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  // Returns how much was sent before the peer was gone.
  std::size_t send(std::string_view bytes) const {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    return sent;
  }
  // Reads that many bytes, or fewer if the peer has closed.
  std::string read(std::size_t bytes) const {
    std::string out(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = ::recv(descriptor_, out.data() + got, bytes - got, 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    out.resize(got);
    return out;
  }
  // Reads everything until the peer closes.
  std::string read_to_end() const {
    std::string out;
    for (;;) {
      const std::string more = read(4096);
      out += more;
      if (more.size() < 4096) return out;
    }
  }
  // Sends, and reads the expected number of bytes.
  std::string ask(std::string_view bytes, std::size_t expected) const {
    send(bytes);
    return read(expected);
  }

 private:
  int descriptor_;
};

inline std::string frame(std::initializer_list<std::string_view> words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + std::string(word) + "\r\n";
  }
  return out;
}

}  // namespace sluice::server::resp
