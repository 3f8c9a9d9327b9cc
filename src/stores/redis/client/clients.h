#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "stores/redis/client/client.h"

namespace sluice::redis {

// A client of the one server that the target names.
std::unique_ptr<Client> make_standalone_client(boost::asio::io_context& loop,
                                               std::shared_ptr<const Target> target,
                                               StoreObserver* observer);

// A client of the master that the target's Sentinels name, whichever that is at the time.
std::unique_ptr<Client> make_sentinel_client(boost::asio::io_context& loop,
                                             std::shared_ptr<const Target> target,
                                             StoreObserver* observer);

}  // namespace sluice::redis
