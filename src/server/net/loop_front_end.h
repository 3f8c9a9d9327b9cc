#pragma once

#include <cstdint>
#include <functional>

namespace sluice::server::net {

// What happens to the connections that the kernel has accepted, and the server has not.
enum class Queued : std::uint8_t {
  kAccept,  // the server accepts them before it closes the socket
  kLeave,   // another process does, which has a copy of the socket
};

// A front end in one event loop: a listener and the handlers of its requests.
//
// Thread-safety: the loop's thread only, except for the constructor. Destroy it after the loop has
// stopped and the waits of the store have ended.
class LoopFrontEnd {
 public:
  virtual ~LoopFrontEnd() = default;
  // Releases rules that are no longer active.
  virtual void follow_rules() = 0;
  // Stops accepting and calls `stopped`.
  virtual void stop_accepting(Queued queued, std::function<void()> stopped) = 0;
  // Stops accepting, lets all connections finish their requests, and calls `drained` after the last
  // one has closed.
  virtual void drain(std::function<void()> drained) = 0;
};

}  // namespace sluice::server::net
