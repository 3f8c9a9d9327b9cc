#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::server {

// What GET /v1/status reports about the store.
struct StoreStatus {
  std::string kind = {};     // "memory" or "redis"
  std::string address = {};  // its URL without passwords; empty for memory
  std::vector<std::pair<std::string, std::uint64_t>> numbers = {};  // {"keys", 12}, ...
};

}  // namespace sluice::server
