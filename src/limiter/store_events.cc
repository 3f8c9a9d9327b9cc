#include "sluice/store_events.h"

#include <array>

namespace sluice {

std::string_view to_string(StoreEventKind kind) noexcept {
  constexpr std::array<std::string_view, kStoreEventKinds> kNames = {
      "connected",     "connection_lost", "connect_failed",  "topology_changed", "request_failed",
      "script_loaded", "breaker_opened",  "breaker_probing", "breaker_closed",
  };
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : std::string_view("unknown");
}

}  // namespace sluice
