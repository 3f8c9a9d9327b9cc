#pragma once

#include <atomic>
#include <string_view>

#include "metrics/metrics.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// Answers requests about the process itself: /healthz, /readyz, /metrics, and 404 for any other
// path. Thread-safety: that of its parts. Ownership: borrows them.
class Operations {
 public:
  Operations(const metrics::Registry& registry, const std::atomic<bool>& ready)
      : registry_(&registry), ready_(&ready) {}

  // `path` is the path of the request without its query.
  void handle(std::string_view path, const http::Request& request, http::Response& response) const;

 private:
  const metrics::Registry* registry_;
  const std::atomic<bool>* ready_;
};

}  // namespace sluice::server
