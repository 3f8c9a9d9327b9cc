#pragma once

#include <atomic>

namespace sluice::server::net {

// Whether a server is ready, as load balancers ask before they use it, and whether one has asked.
//
// Thread-safety: any member from any thread.
class Readiness {
 public:
  Readiness(bool ready = false) noexcept : ready_(ready) {}  // NOLINT(google-explicit-constructor)
  Readiness& operator=(bool ready) noexcept {
    ready_.store(ready, std::memory_order_relaxed);
    return *this;
  }
  operator bool() const noexcept {  // NOLINT(google-explicit-constructor)
    return ready_.load(std::memory_order_relaxed);
  }
  // Answers somebody who has asked.
  bool answer() const noexcept {
    if (!was_asked()) asked_.store(true, std::memory_order_relaxed);
    return *this;
  }
  bool was_asked() const noexcept { return asked_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> ready_;
  mutable std::atomic<bool> asked_{false};
};

}  // namespace sluice::server::net
