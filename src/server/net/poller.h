#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>

#include "server/net/loop_clock.h"

namespace sluice::server::net {

// Reports which of many sockets of one event loop are ready, for as long as they are. It uses an
// epoll of its own, which is one descriptor in the loop. A socket that is read and waited for again
// needs no system call except for its read and write, and no memory in the loop.
//
// Thread-safety: the loop's thread only, except for the constructor. Ownership: borrows the loop.
class Poller {
 public:
  // A socket that waits.
  class Source {
   public:
    virtual ~Source() = default;
    // The socket is ready, or the peer is gone. May destroy the source.
    virtual void ready() = 0;
  };

  // Errors: std::system_error if there is no descriptor left.
  Poller(boost::asio::io_context& loop, const LoopClock& clock);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Waits for input until change(). Returns false if the system has no resources for it.
  [[nodiscard]] bool add(int descriptor, Source& source);
  // From then on, the poller calls `source` only for `events`: EPOLLIN, EPOLLOUT, EPOLLRDHUP, or 0
  // for none.
  void change(int descriptor, Source& source, std::uint32_t events);
  void remove(int descriptor, Source& source, std::uint32_t events);

  // Returns the time at which this turn of the loop began to report sockets. It may be some
  // milliseconds ago, if many sockets were ready.
  SteadyTime now() const noexcept { return now_; }

 private:
  void wait();
  void report_all();
  int report_ready();
  void forget(const Source& source);

  static constexpr int kMostAtOnce = 128;

  boost::asio::posix::stream_descriptor descriptor_;
  const LoopClock& clock_;
  std::array<epoll_event, kMostAtOnce> ready_{};  // found; those of removed sources are null
  int reported_ = 0;
  int found_ = 0;
  SteadyTime now_;
};

}  // namespace sluice::server::net
