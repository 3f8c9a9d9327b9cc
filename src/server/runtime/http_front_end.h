#pragma once

#include <memory>

#include "server/runtime/front_end.h"

namespace sluice::server {

// HTTP: /v1/check, /v1/auth, /json and the operations.
std::unique_ptr<FrontEnd> make_http_front_end(const FrontEndParts& parts);

}  // namespace sluice::server
