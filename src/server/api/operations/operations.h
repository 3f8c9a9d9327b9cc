#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "metrics/metrics.h"
#include "server/net/fiber_sleep.h"
#include "server/net/readiness.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// Writes the text of /metrics in a thread of its own, one text at a time: with thousands of limits
// it takes tens of milliseconds, for which an event loop would decide nothing. The thread has a low
// priority. Requests that arrive while a text is written wait for the next one, which they share.
//
// Thread-safety: any member from any thread. Ownership: borrows the registry; outlives the fibers
// that wait, but not their loops.
class MetricsWorker {
 public:
  explicit MetricsWorker(const metrics::Registry& registry);
  ~MetricsWorker();
  MetricsWorker(const MetricsWorker&) = delete;
  MetricsWorker& operator=(const MetricsWorker&) = delete;

  // The most requests of a loop that wait at the same time. A loop has more fibers than that, so
  // that other requests are answered meanwhile.
  static constexpr std::size_t kMostWaiting = 32;

  // Returns a text that was begun after this call, or null if too many requests of the loop wait
  // already. Call it on a fiber, which sleeps meanwhile. If the sleeps of its loop are stopped, the
  // fiber writes the text itself.
  std::shared_ptr<const std::string> text(net::FiberSleeps& sleeps);

 private:
  std::shared_ptr<const std::string> text_since(std::uint64_t request);

  const metrics::Registry& registry_;
  std::mutex mutex_;                                        // protects the next
  std::map<const net::FiberSleeps*, std::size_t> waiting_;  // how many fibers, by loop
  std::atomic<std::uint64_t> requests_{0};
  std::mutex text_mutex_;   // held while a text is written; protects the next two
  std::uint64_t last_ = 0;  // the number of the last request before the text was begun
  std::weak_ptr<const std::string> text_;  // null: no request has it any more
  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  std::thread thread_;
};

// Answers requests about the process itself: /healthz, /readyz, /metrics, and 404 for any other
// path of the administration. Thread-safety: that of its parts. Ownership: borrows them.
class Operations {
 public:
  Operations(const metrics::Registry& registry, const net::Readiness& ready,
             MetricsWorker* worker = nullptr)
      : registry_(&registry), ready_(&ready), worker_(worker) {}

  // Returns the operations of a loop: /metrics waits for the worker, on a fiber of that loop.
  // Without a worker or on no fiber, the calling thread writes it.
  Operations in(net::FiberSleeps* sleeps) const {
    Operations same = *this;
    same.sleeps_ = sleeps;
    return same;
  }

  static bool knows(std::string_view path) noexcept {
    return path == "/healthz" || path == "/readyz" || path == "/metrics";
  }
  // `path` is the path of the request without its query.
  void handle(std::string_view path, const http::Request& request, http::Response& response) const;

 private:
  const metrics::Registry* registry_;
  const net::Readiness* ready_;
  MetricsWorker* worker_;
  net::FiberSleeps* sleeps_ = nullptr;
};

}  // namespace sluice::server
