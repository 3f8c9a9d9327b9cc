#pragma once

#include <string_view>

#include "server/net/loop_clock.h"

namespace sluice::server {

// Reports the state of the process ("READY=1") to the service manager by the protocol of
// sd_notify(3). Does nothing if there is no service manager (NOTIFY_SOCKET is not set). Does not
// report errors, because no caller could act on them.
void notify_manager(std::string_view state) noexcept;
// Reports "RELOADING=1" with the time, which the protocol requires.
void notify_reloading(net::SteadyTime now) noexcept;

}  // namespace sluice::server
