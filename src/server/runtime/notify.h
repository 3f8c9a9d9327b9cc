#pragma once

#include <string_view>

namespace sluice::server {

// Tells the service manager how the process is ("READY=1"), by the protocol of sd_notify(3); does
// nothing where there is none (NOTIFY_SOCKET is not set). Errors are not told: nobody would act.
void notify_manager(std::string_view state) noexcept;
// Reports "RELOADING=1" with the time, which the protocol requires.
void notify_reloading() noexcept;

}  // namespace sluice::server
