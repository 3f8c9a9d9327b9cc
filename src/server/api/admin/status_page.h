#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/rules/envoy_manager.h"
#include "server/storage/loop_stores.h"

namespace sluice::server {

// Overrides that a Redis without its data has lost, while this server knew them.
struct OverridesLost {
  static constexpr std::chrono::hours kShown{1};  // the time for which the status says so

  std::uint64_t count = 0;  // that are missing
  Instant at{};
  std::size_t before = 0;  // overrides before the loss

  // `left`: the overrides after the loss.
  void add(std::uint64_t lost, std::size_t left) {
    const Instant now = SystemClock::instance().now();
    if (now - at >= kShown) before = 0;
    before = std::max(before, left + static_cast<std::size_t>(lost));
    at = now;
  }
  // What is to be shown if there are this many overrides now.
  OverridesLost with(std::size_t overrides) const noexcept {
    return {overrides < before ? before - overrides : 0, at, before};
  }
};

// The part of GET /v1/status that is not about rules.
struct ServerStatus {
  struct Listener {
    std::string name;     // "http"
    std::string address;  // "127.0.0.1:8080"
    std::size_t connections = 0;
  };

  std::string version;
  std::chrono::seconds uptime{0};
  bool ready = false;
  bool draining = false;
  std::size_t threads = 0;
  std::vector<Listener> listeners = {};
  StoreStatus store = {};
  OverridesLost overrides_lost = {};
  bool knows_overrides = true;            // false: Redis could not be read since the start
  std::uint64_t proxies = 0;              // that have parts of limits (docs/quota.md)
  std::optional<EnvoyStatus> envoy = {};  // set if there are files of Envoy's configuration
};

}  // namespace sluice::server
