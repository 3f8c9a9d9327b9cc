#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>

#include "server/net/loop_clock.h"

struct epoll_event;

namespace sluice::server::net {

// Tells many sockets of one event loop when they are ready, as long as they are: an epoll of its
// own, which is one descriptor to the loop. So a socket that is read and waited for again costs no
// system call beside its read and write, and no memory in the loop.
//
// Thread-safety: the loop's thread only, but for the constructor. Ownership: borrows the loop.
class Poller {
 public:
  enum class For : std::uint8_t { kNothing, kInput, kRoom };

  // A socket that waits.
  class Source {
   public:
    virtual ~Source() = default;
    // What it waits for is there, or the peer is gone. May destroy the source.
    virtual void ready() = 0;
  };

  // Errors: std::system_error if there is no descriptor left.
  explicit Poller(boost::asio::io_context& loop, const LoopClock& clock = LoopClock::system());
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Waits until it is told otherwise. False: the system has no room for it.
  [[nodiscard]] bool add(int descriptor, Source& source);
  // From then on `source` is not called but for what is asked for; for nothing, it has to be
  // nothing while it is.
  void change(int descriptor, Source& source, For what);
  void remove(int descriptor, Source& source, For what);

  // When those that are being told were found to be ready.
  SteadyTime now() const noexcept { return now_; }

 private:
  void wait();
  void tell_all();
  int tell();
  void forget(const Source& source);

  static constexpr int kMostAtOnce = 128;

  boost::asio::posix::stream_descriptor descriptor_;
  const LoopClock& clock_;
  std::array<Source*, kMostAtOnce> ready_{};  // found, and not told yet
  int told_ = 0;
  int found_ = 0;
  SteadyTime now_;
};

}  // namespace sluice::server::net
