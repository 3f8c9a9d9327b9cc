#pragma once

#include "metrics/counts.h"
#include "sluice/async_store.h"
#include "sluice/store.h"

namespace sluice::server {

// An asynchronous store for the fibers of one event loop. A request waits for its answer while the
// loop continues.
//
// Thread-safety: the loop's thread only, and only on its fibers; any other request returns
// kStoreError; durations() from any thread. Ownership: borrows the store.
class FiberStore final : public Store {
 public:
  explicit FiberStore(AsyncStore& store) noexcept : store_(store) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  // The times from a request to its answer or its failure.
  const metrics::Durations& durations() const noexcept { return durations_; }

 private:
  AsyncStore& store_;
  metrics::Durations durations_;
};

}  // namespace sluice::server
