#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "metrics/metrics.h"
#include "server/http/listening_socket.h"
#include "server/logging/log.h"

namespace sluice::server::grpc {

// The accepting half of a listener: takes what the kernel has accepted, up to a cap, and gets over
// a lack of descriptors.
//
// All members by the loop's thread, but for the constructor. Destroy it when the loop has stopped.
class Acceptor {
 public:
  struct Parts {
    boost::asio::io_context& loop;
    metrics::Recorder& recorder;
    Log& log;
    std::size_t most;                       // connections of this address
    std::atomic<std::size_t>& connections;  // that there are, in all loops
  };
  class Owner {
   public:
    // A connection, whose descriptor is the owner's from now on; it tells released() at its end.
    virtual void accepted(int descriptor, int family, std::string peer) = 0;
    // After drain(): nothing is accepted any more.
    virtual void closed() = 0;

   protected:
    ~Owner() = default;
  };

  Acceptor(const Parts& parts, http::ListeningSocket socket, Owner& owner);
  ~Acceptor();

  // A connection has ended.
  void released();
  // Lets handshakes that have begun end, takes those connections, then closes.
  void drain();
  bool open() const { return socket_.is_open(); }
  // Logs it, once a second at most.
  void complain(std::string_view what, std::string_view why);

 private:
  void wait();
  bool accept_one();
  bool refuse_without_descriptors();
  void take(int descriptor, std::string peer);
  void stop_listening();

  Parts parts_;
  Owner& owner_;
  boost::asio::posix::stream_descriptor socket_;
  int family_;
  boost::asio::steady_timer closer_;
  std::chrono::steady_clock::time_point complained_{};
  int reserve_;  // given up for a moment when there is no other descriptor
};

}  // namespace sluice::server::grpc
