#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "server/api/envoy/rls_service.h"
#include "server/protocol/grpc/message.h"

namespace sluice::server {

// What stands behind the gRPC door: Envoy's rate limit service.
std::unique_ptr<grpc::Handler> make_rls_handler(const RlsService::Parts& parts);
// Its methods.
std::vector<std::string_view> rls_paths();

}  // namespace sluice::server
