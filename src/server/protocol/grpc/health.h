#pragma once

#include <string_view>

#include "server/protocol/grpc/message.h"

// grpc.health.v1.Health, for the server as a whole ("") and for its service ("ratelimit").
namespace sluice::server::grpc {

enum class Health : std::uint8_t { kServing, kNotServing, kServiceUnknown };

// Returns the bytes of a HealthCheckResponse.
std::string_view health_message(Health health) noexcept;

// Answers a HealthCheckRequest. Errors: kNotFound for an unknown service, kInvalidArgument.
void check_health(std::string_view request, bool serving, Reply& reply);

}  // namespace sluice::server::grpc
