#pragma once

#include <memory>

#include "stores/redis/client/client.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// A client of the one server that the target names.
std::unique_ptr<Client> make_standalone_client(std::unique_ptr<EventLoop> loop,
                                               std::shared_ptr<const Target> target,
                                               StoreObserver* observer);

// A client of the master that the target's Sentinels name, also after it changes.
std::unique_ptr<Client> make_sentinel_client(std::unique_ptr<EventLoop> loop,
                                             std::shared_ptr<const Target> target,
                                             StoreObserver* observer);

}  // namespace sluice::redis
