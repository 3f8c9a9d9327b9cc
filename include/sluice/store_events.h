#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

// What befalls a store that lies outside of this process.
enum class StoreEventKind : std::uint8_t {
  kConnected,        // a connection is ready
  kConnectionLost,   // a connection that was ready has ended
  kConnectFailed,    // none could be made; it will be tried again
  kTopologyChanged,  // another master, or another map of slots
  kRequestFailed,    // the server answered a request with an error
  kScriptLoaded,     // a script was sent anew, as the server did not know it
  kBreakerOpened,    // requests are answered by policy from now on
  kBreakerProbing,   // one request is let through, to see
  kBreakerClosed,    // requests are asked of the store again
};
inline constexpr std::size_t kStoreEventKinds = 9;

// "connected", "connection_lost", ...
std::string_view to_string(StoreEventKind kind) noexcept;

struct StoreEvent {
  StoreEventKind kind = StoreEventKind::kConnected;
  std::string_view endpoint;  // "127.0.0.1:6379", "/run/redis.sock"; empty where there is none
  std::string_view why;       // in words, for the log; empty where there is nothing to say
};

// Is told what befalls a store, for logs and metrics.
//
// on() is called from any thread, also from several at once, and must not wait. Ownership: whoever
// is given an observer borrows it; the event's texts are valid for the call.
class StoreObserver {
 public:
  virtual ~StoreObserver() = default;
  virtual void on(const StoreEvent& event) noexcept = 0;
};

}  // namespace sluice
