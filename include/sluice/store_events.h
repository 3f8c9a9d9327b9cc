#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

// An event of a store outside of this process.
enum class StoreEventKind : std::uint8_t {
  kConnected,        // a connection is ready
  kConnectionLost,   // a connection that was ready has ended
  kConnectFailed,    // no connection could be made; the store tries again
  kTopologyChanged,  // another master, or another map of slots
  kRequestFailed,    // the server answered a request with an error
  kScriptLoaded,     // a script was sent again, because the server did not know it
  kBreakerOpened,    // from now on requests do not go to the store
  kBreakerProbing,   // one request goes to the store as a probe
  kBreakerClosed,    // requests go to the store again
};
inline constexpr std::size_t kStoreEventKinds = 9;

// "connected", "connection_lost", ...
std::string_view to_string(StoreEventKind kind) noexcept;

// What happened, where and why. A plain value that borrows its texts.
struct StoreEvent {
  StoreEventKind kind = StoreEventKind::kConnected;
  std::string_view endpoint;  // "127.0.0.1:6379", "/run/redis.sock"; empty if there is none
  std::string_view why;       // the reason, for the log; empty if there is none
};

// Receives the events of stores, for logs and metrics.
//
// Thread-safety: on() is called from any thread, even from several at the same time, and must not
// block. Ownership: stores borrow their observer.
class StoreObserver {
 public:
  virtual ~StoreObserver() = default;
  // Called for each event. The texts of the event are valid during the call.
  virtual void on(const StoreEvent& event) noexcept = 0;
};

}  // namespace sluice
