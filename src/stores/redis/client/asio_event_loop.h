#pragma once

#include <memory>

#include "sluice/clock.h"
#include "stores/redis/client/event_loop.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

struct Target;

// An event loop on Boost.Asio, with sockets as the target's options say. Borrows both. `clock` must
// run at the pace of std::chrono::steady_clock and have its epoch, as SteadyClock does.
std::unique_ptr<EventLoop> make_asio_event_loop(boost::asio::io_context& loop,
                                                std::shared_ptr<const Target> target,
                                                const Clock& clock = SteadyClock::instance());

}  // namespace sluice::redis
