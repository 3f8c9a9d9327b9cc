#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/net/trusted_proxies.h"
#include "server/rules/envoy_manager.h"
#include "server/rules/server_overrides.h"
#include "server/storage/loop_stores.h"
#include "sluice/overrides.h"

namespace sluice::server {

// Overrides that a Redis without its data has lost, while this server knew them, and that are
// missing since. It keeps them, so that they can be set again.
class OverridesLost {
 public:
  static constexpr std::chrono::hours kShown{1};  // the time for which they are remembered
  // More are not remembered: update() looks at each, in the main thread.
  static constexpr std::size_t kMost = 10'000;
  static constexpr std::size_t kNamed = 10;  // those that the status names

  void add(ServerOverrides::Entries lost, Instant now) {
    at_ = now;
    for (const auto& [counter, given] : lost) {
      if (missing_.size() < kMost) missing_[counter] = given;
    }
  }
  // Forgets one that is not wanted any more. Returns it.
  std::optional<Override> forget(const std::string& counter) {
    auto found = missing_.extract(counter);
    return found ? std::optional(std::move(found.mapped())) : std::nullopt;
  }
  // Forgets those that were set again or would have ended, and after an hour all. Returns how many
  // are missing.
  std::size_t update(const Overrides& all, Instant now) {
    std::erase_if(missing_, [&](const auto& one) {
      const auto& [counter, given] = one;
      return now - at_ >= kShown || (given.until && *given.until <= now) || all.find(counter, now);
    });
    return missing_.size();
  }
  Instant at() const noexcept { return at_; }
  const auto& missing() const noexcept { return missing_; }
  // The counters of the first that are missing, in their order.
  std::vector<std::string> first() const {
    std::vector<std::string> counters;
    for (auto at = missing_.begin(); at != missing_.end() && counters.size() < kNamed; ++at) {
      counters.push_back(at->first);
    }
    return counters;
  }

 private:
  std::map<std::string, Override, std::less<>> missing_;  // by their counters
  Instant at_{};                                          // of the latest loss
};

// The part of GET /v1/status that is not about rules.
struct ServerStatus {
  struct Listener {
    std::string name;     // "http"
    std::string address;  // "127.0.0.1:8080"
    std::size_t connections = 0;
    std::size_t most = 0;  // connections; 0 if it is off
  };

  std::string version;
  std::chrono::seconds uptime{0};
  bool ready = false;
  bool draining = false;
  std::size_t threads = 0;
  std::vector<Listener> listeners = {};
  StoreStatus store = {};
  std::size_t overrides_lost = 0;
  std::vector<std::string> overrides_lost_first = {};  // their counters
  Instant overrides_lost_at{};
  bool knows_overrides = true;  // false: Redis could not be read since the start
  std::optional<TrustedProxies::Stranger> stranger = {};
  std::uint64_t proxies = 0;              // that have parts of limits (docs/quota.md)
  std::optional<EnvoyStatus> envoy = {};  // set if there are files of Envoy's configuration
};

}  // namespace sluice::server
