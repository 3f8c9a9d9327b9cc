#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sluice/clock.h"

namespace sluice {

// Returns the details of a gRPC status: a serialized google.rpc.Status with this code and message,
// and with a google.rpc.RetryInfo if there is a wait. Needs
// neither gRPC nor protobuf. Clients find it in the trailer `grpc-status-details-bin`.
std::string grpc_status_details(int code, std::string_view message,
                                std::optional<Duration> retry_after);

}  // namespace sluice
