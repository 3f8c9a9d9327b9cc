#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string_view>

#include "metrics/metrics.h"
#include "server/net/listening_socket.h"
#include "server/net/loop_clock.h"
#include "server/net/socket_address.h"

namespace sluice::server::net {

// Accepts connections at one listening socket in one event loop, whatever they speak: up to a
// number of them, and also when the process has run out of descriptors.
//
// All members by the loop's thread, but for the constructor. Destroy it when the loop has stopped.
class Acceptor {
 public:
  // Whose connections they are.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Takes the descriptor, which does not block. The connection is counted; closed() counts it
    // off.
    virtual void accepted(int descriptor, const SocketAddress& peer) = 0;
  };
  struct Parts {
    boost::asio::io_context& loop;
    metrics::Recorder& recorder;
    // Logs a warning. `why` is empty if there is nothing to add.
    std::function<void(std::string_view what, std::string_view why)> warn;
    // Connections of this address in all loops, at most `most`.
    std::atomic<std::size_t>& connections;
    std::size_t most;
    const LoopClock& clock = LoopClock::system();
    std::string_view refusal = {};  // sent to a connection over the cap; a literal
  };

  Acceptor(const Parts& parts, ListeningSocket socket, Owner& owner);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int family() const noexcept { return family_; }
  // A connection has ended.
  void closed();
  // Stops accepting, takes what the kernel has accepted already, closes, and calls `done`.
  void stop(std::function<void()> done);
  bool open() const { return socket_.is_open(); }
  // Logs it, once a second at most; with the error, unless that is 0.
  void complain(std::string_view what, int error);

 private:
  void wait();
  bool accept_one();
  bool drop_without_descriptors();
  void refuse(int descriptor);

  Parts parts_;
  Owner& owner_;
  boost::asio::posix::stream_descriptor socket_;
  int family_;
  boost::asio::steady_timer closer_;
  SteadyTime complained_{};
  int reserve_;  // given up for a moment when there is no other descriptor
};

}  // namespace sluice::server::net
