#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/rules/envoy_status.h"
#include "server/storage/store_status.h"

namespace sluice::server {

// What GET /v1/status tells beside the rules.
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
  std::optional<EnvoyStatus> envoy = {};  // where Envoy's files were given
};

}  // namespace sluice::server
