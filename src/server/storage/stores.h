#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "metrics/metrics.h"
#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/storage/loop_stores.h"
#include "server/storage/store_status.h"
#include "sluice/expected.h"
#include "sluice/limiter.h"

namespace sluice::server {

// Where the counters of a server are: in its memory, or in Redis, as `store` in its configuration
// says.
//
// Thread-safety: any member from any thread. Ownership: borrows the log; outlives what it makes.
class Stores {
 public:
  // Errors: what is wrong with the configuration of Redis, or a file of it that cannot be read.
  // That the server of it is not there is none: it is connected to when it is.
  static Expected<std::unique_ptr<Stores>> open(const Config& config, Log& log);

  virtual ~Stores() = default;
  // Decides if the store never waits.
  virtual Limiter& limiter() = 0;
  // The stores of one loop if they may wait, else null.
  virtual std::unique_ptr<LoopStores> make(boost::asio::io_context& loop) = 0;

  virtual void add_metrics(metrics::Registry& registry) = 0;
  virtual StoreStatus status() const = 0;
};

}  // namespace sluice::server
