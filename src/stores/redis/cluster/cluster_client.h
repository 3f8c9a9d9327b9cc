#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "stores/redis/client/client.h"

namespace sluice::redis {

// A client of a Redis Cluster: a connection to each master that is needed, commands sent by their
// slot, redirects followed, the map of the slots kept up to date.
//
// A command that comes before the first map waits for it; once nobody has answered it is refused
// until somebody does. Whatever is sent again is known not to have been done: the server has said
// so (MOVED, ASK, TRYAGAIN). See Client for threads, ownership and ends.
std::unique_ptr<Client> make_cluster_client(boost::asio::io_context& loop,
                                            std::shared_ptr<const Target> target,
                                            StoreObserver* observer);

}  // namespace sluice::redis
