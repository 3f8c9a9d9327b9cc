#pragma once

#include <memory>

#include "stores/redis/client/client.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// A client of a Redis Cluster: it connects to each master that it needs, sends commands by their
// slots, follows redirects, and keeps the map of the slots up to date.
//
// Commands wait for the first map; they are refused from when no server could be asked for it until
// one answers. A command is sent again only if the server said that it was not executed (MOVED,
// ASK, TRYAGAIN). See Client for thread-safety and ownership.
std::unique_ptr<Client> make_cluster_client(std::unique_ptr<EventLoop> loop,
                                            std::shared_ptr<const Target> target,
                                            StoreObserver* observer);

}  // namespace sluice::redis
