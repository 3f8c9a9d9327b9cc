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
#include "server/net/descriptor_budget.h"
#include "server/net/listening_socket.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/socket_address.h"
#include "server/net/tls_context.h"

namespace sluice::server::net {

// Accepts the connections of one listening socket in one event loop, for any protocol. It bounds
// the number of connections and keeps working when the process has run out of descriptors. The
// budget of descriptors makes that rare.
//
// Thread-safety: the loop's thread only, except for the constructor. Destroy it after the loop has
// stopped.
class Acceptor {
 public:
  // Receives the connections.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Takes ownership of the descriptor, which does not block. The acceptor counts the connection
    // as open until closed() is called.
    virtual void accepted(int descriptor, const SocketAddress& peer) = 0;
  };
  struct Parts {
    boost::asio::io_context& loop;
    metrics::Recorder& recorder;
    // Logs a warning. `why` is empty if there is nothing to add.
    std::function<void(std::string_view what, std::string_view why)> warn;
    // The open connections of this address in all loops, at most `most`.
    std::atomic<std::size_t>& connections;
    std::size_t most;
    const LoopClock& clock;
    std::string_view refusal = {};                   // sent to a connection over the cap; a literal
    DescriptorBudget* descriptors = nullptr;         // null: no bound
    DescriptorBudget::Share* share = nullptr;        // of this address in `descriptors`
    const TlsContext* tls = nullptr;                 // null: plaintext
    std::chrono::milliseconds handshake_timeout{0};  // of TLS
  };

  Acceptor(const Parts& parts, ListeningSocket socket, Owner& owner);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int family() const noexcept { return family_; }
  // Call it when a connection has ended.
  void closed();
  // Closes the socket and calls `done`. With kAccept, accepts those that the kernel has queued
  // before, unless a service manager keeps the socket.
  void stop(Queued queued, std::function<void()> done);
  bool open() const { return socket_.is_open(); }
  // Logs the problem, at most once a second, with the error unless it is 0.
  void complain(std::string_view what, int error);
  void complain(std::string_view what, std::string_view why);

 private:
  void wait();
  void close();
  bool accept_one();
  bool drop_without_descriptors();
  void refuse(int descriptor, metrics::Event reason, std::string_view why);
  bool take_descriptor();
  void give_back_descriptor();

  Parts parts_;
  Owner& owner_;
  boost::asio::posix::stream_descriptor socket_;
  int family_;
  bool leaves_queue_;  // to the next process
  boost::asio::steady_timer closer_;
  SteadyTime complained_{};
  int reserve_;  // closed for a moment when there is no other descriptor
};

}  // namespace sluice::server::net
