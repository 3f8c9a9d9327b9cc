#pragma once

#include <span>
#include <string_view>

#include "server/protocol/grpc/message.h"

// Server reflection, whose versions v1 and v1alpha have the same bytes.
namespace sluice::server::grpc {

// Answers one ServerReflectionRequest: with the services of `paths` and of this folder, and with
// descriptions of messages that are linked in. Errors: kInvalidArgument; what is not found is told
// in the reply's message.
void answer_reflection(std::string_view request, std::span<const std::string_view> paths,
                       Reply& reply);

}  // namespace sluice::server::grpc
