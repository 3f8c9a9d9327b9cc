#pragma once

#include <memory>
#include <vector>

#include "sluice/store.h"
#include "stores/redis/client/client.h"
#include "stores/redis/store/operation.h"

namespace sluice::server {

// The store on Redis as the fibers of one event loop ask it: a request waits for its answer, and
// the loop goes on meanwhile. What all fibers ask in one turn of the loop leaves in one write.
//
// Thread-safety: the loop's thread only, and on its fibers: a request from elsewhere is answered
// with kStoreError. Ownership: borrows the client and the options. Cost: keeps the buffers of as
// many requests as were under way at once.
class FiberStore final : public Store {
 public:
  FiberStore(redis::Client& client, const redis::OperationOptions& options)
      : client_(&client), options_(&options) {}

  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;

  // From now on everything is answered with kStoreError: the client is about to go, which ends what
  // is under way.
  void stop() noexcept { client_ = nullptr; }

 private:
  redis::Client* client_;
  const redis::OperationOptions* options_;
  std::vector<std::unique_ptr<redis::Operation>> free_;
};

}  // namespace sluice::server
