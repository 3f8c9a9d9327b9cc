#pragma once

#include <memory>
#include <vector>

#include "sluice/store.h"
#include "stores/redis/client/client.h"
#include "stores/redis/store/operation.h"

namespace sluice::server {

// The Redis store for the fibers of one event loop. A request waits for its answer while the loop
// continues. All requests of one turn of the loop are sent in one write.
//
// Thread-safety: the loop's thread only, and only on its fibers; any other request returns
// kStoreError. Ownership: borrows the client and the options. Cost: keeps the buffers of as many
// requests as were in progress at the same time.
class FiberStore final : public Store {
 public:
  FiberStore(redis::Client& client, const redis::OperationOptions& options)
      : client_(&client), options_(&options) {}

  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;

  // From now on, all requests return kStoreError. Call it before the client is destroyed, which
  // ends the requests in progress.
  void stop() noexcept { client_ = nullptr; }

 private:
  redis::Client* client_;
  const redis::OperationOptions* options_;
  std::vector<std::unique_ptr<redis::Operation>> free_;
};

}  // namespace sluice::server
