#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/net/loop_clock.h"

namespace sluice::server::net {

// What the socket of a connection must do next.
enum class Action : std::uint8_t {
  kReceive,     // wait for input, then on_input()
  kSend,        // send output(), as far as it goes without waiting, then on_sent()
  kWaitToSend,  // wait for room, then on_room()
  kWait,        // wait for StateOwner::act()
  kHalfClose,   // send the end of the stream, then as kReceive
  kClose,
};

// Who carries out the actions of a connection's state: its socket, or a test.
class StateOwner {
 public:
  virtual ~StateOwner() = default;
  // What had to wait goes on: requests are answered, or a broadcast has more. May close the
  // connection.
  virtual void act(Action action) = 0;
};

// When this many bytes of responses wait, later requests are not answered.
inline constexpr std::size_t kMostWaiting = std::size_t{64} << 10;
// After the last response a connection reads and discards input for this long and this much, so
// that the client sees the response and not a reset.
inline constexpr auto kLingerTime = std::chrono::seconds(2);
inline constexpr std::uint32_t kLingerBytes = std::uint32_t{16} << 20;
// How long an idle connection stays open while the server drains.
inline constexpr auto kDrainIdle = std::chrono::seconds(1);

// What the states of connections have in common that answer requests in their order.
class StreamState {
 public:
  // Returns whether the connection takes too long. If so, stop waiting and call on_expired().
  bool expired(SteadyTime now) const noexcept { return now >= deadline_; }
  // Whether a request is being answered, and waits for something that the client can end.
  bool is_answering() const noexcept { return false; }
  // The client sends no more, and has perhaps gone. Call it only while is_answering().
  void on_end_of_input() {}
  // Whether the response goes on until the connection ends.
  bool is_broadcast() const noexcept { return false; }
  // The socket is closed.
  void on_closed() noexcept {}

 protected:
  StreamState(StateOwner& owner, SteadyTime now) : owner_(owner), now_(now) {}

  // Counts input after the end of the stream.
  Action discard(std::string_view bytes) noexcept {
    lingered_ += static_cast<std::uint32_t>(bytes.size());
    return lingered_ > kLingerBytes ? Action::kClose : Action::kReceive;
  }
  // The server is draining, and the connection is idle.
  void end_soon(SteadyTime now) { deadline_ = std::min(deadline_, now + kDrainIdle); }

  StateOwner& owner_;
  SteadyTime now_;
  SteadyTime deadline_;
  std::uint32_t lingered_ = 0;
  bool closing_ = false;  // after the responses are sent
  bool paused_ = false;   // until the responses are sent
};

}  // namespace sluice::server::net
