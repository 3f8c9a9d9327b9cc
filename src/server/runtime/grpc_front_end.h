#pragma once

#include <memory>

#include "server/runtime/front_end.h"

namespace sluice::server {

// gRPC: Envoy's rate limit service.
std::unique_ptr<FrontEnd> make_grpc_front_end(const FrontEndParts& parts);

}  // namespace sluice::server
