#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "server/api/envoy/rls_service.h"
#include "server/protocol/grpc/message.h"
#include "server/protocol/http/access.h"

namespace sluice::server {

// Answers the calls of the gRPC front end: Envoy's rate limit service.
// Borrows `access`.
std::unique_ptr<grpc::Handler> make_rls_handler(const RlsService::Parts& parts,
                                                const Access& access);
// Returns the paths of its methods.
std::vector<std::string_view> rls_paths();

}  // namespace sluice::server
