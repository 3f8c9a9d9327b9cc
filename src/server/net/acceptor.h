#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <string_view>

#include "metrics/metrics.h"
#include "server/net/listening_socket.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/socket_address.h"
#include "server/net/tls_context.h"

namespace sluice::server::net {

// The number of connections for which the process has file descriptors. Each listener has a share
// that the others leave free, so that connections to one of them do not exclude the clients of
// another. All listeners share the rest.
//
// Thread-safety: any thread. Ownership: owns the shares. Cost: a lock for each connection.
class DescriptorBudget {
 public:
  // The connections of one listening address, in all loops.
  class Share {
   public:
    explicit Share(bool administration) : administration_(administration) {}

   private:
    friend class DescriptorBudget;
    const bool administration_;
    std::size_t own_ = std::numeric_limits<std::size_t>::max();
    std::size_t taken_ = 0;
  };

  Share& add_listener(bool administration) {
    const std::lock_guard lock(mutex_);
    return shares_.emplace_back(administration);
  }
  // Without set() there is no bound. The share of administration is `reserve`. The other listeners
  // have equal shares of half of the rest.
  void set(std::size_t most, std::size_t reserve) {
    const std::lock_guard lock(mutex_);
    most_ = most;
    const auto others = static_cast<std::size_t>(std::count_if(
        shares_.begin(), shares_.end(), [](const Share& one) { return !one.administration_; }));
    const std::size_t rest = most > reserve ? most - reserve : 0;
    for (Share& one : shares_) one.own_ = one.administration_ ? reserve : rest / (2 * others);
  }
  // The most connections that this listener can have while the others have what they have now.
  std::size_t most(const Share& share) const {
    const std::lock_guard lock(mutex_);
    std::size_t left = most_;
    for (const Share& one : shares_) {
      if (&one != &share) left -= std::min(left, std::max(one.own_, one.taken_));
    }
    return std::max(share.own_, left);
  }

  // Returns false if no descriptor is left for a connection. Otherwise call give_back() after it is
  // closed.
  bool take(Share& share) {
    const std::lock_guard lock(mutex_);
    if (share.taken_ >= share.own_) {
      std::size_t reserved = 0;
      for (const Share& one : shares_) reserved += std::max(one.own_, one.taken_);
      if (reserved >= most_) return false;
    }
    ++share.taken_;
    return true;
  }
  void give_back(Share& share) {
    const std::lock_guard lock(mutex_);
    --share.taken_;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Share> shares_;  // a deque: shares do not move
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
};

// Accepts the connections of one listening socket in one event loop, for any protocol. It bounds
// the number of connections and keeps working when the process has run out of descriptors. The
// budget of descriptors makes that rare.
//
// Thread-safety: the loop's thread only, except for the constructor. Destroy it after the loop has
// stopped.
class Acceptor {
 public:
  // Takes ownership of the descriptor of a connection, which does not block. The acceptor counts
  // the connection as open until closed() is called.
  using Accept = std::function<void(int descriptor, const SocketAddress& peer)>;
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

  Acceptor(const Parts& parts, ListeningSocket socket, Accept accept);
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

  Parts parts_;
  const Accept accept_;
  boost::asio::posix::stream_descriptor socket_;
  int family_;
  bool leaves_queue_;  // to the next process
  boost::asio::steady_timer closer_;
  SteadyTime complained_{};
  int reserve_;  // closed for a moment when there is no other descriptor
};

}  // namespace sluice::server::net
