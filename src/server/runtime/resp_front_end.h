#pragma once

#include <memory>

#include "server/runtime/front_end.h"

namespace sluice::server {

// RESP: the commands for clients of Redis.
std::unique_ptr<FrontEnd> make_resp_front_end(const FrontEndParts& parts);

}  // namespace sluice::server
