#pragma once

#include <atomic>
#include <string_view>

#include "metrics/metrics.h"
#include "server/api/operations/metrics_worker.h"
#include "server/net/fiber_sleep.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// Answers requests about the process itself: /healthz, /readyz, /metrics, and 404 for any other
// path. Thread-safety: that of its parts. Ownership: borrows them.
class Operations {
 public:
  Operations(const metrics::Registry& registry, const std::atomic<bool>& ready,
             MetricsWorker* worker = nullptr)
      : registry_(&registry), ready_(&ready), worker_(worker) {}

  // Returns the operations of a loop: /metrics waits for the worker, on a fiber of that loop.
  // Without a worker or on no fiber, the calling thread writes it.
  Operations in(net::FiberSleeps* sleeps) const {
    Operations same = *this;
    same.sleeps_ = sleeps;
    return same;
  }

  // `path` is the path of the request without its query.
  void handle(std::string_view path, const http::Request& request, http::Response& response) const;

 private:
  const metrics::Registry* registry_;
  const std::atomic<bool>* ready_;
  MetricsWorker* worker_;
  net::FiberSleeps* sleeps_ = nullptr;
};

}  // namespace sluice::server
