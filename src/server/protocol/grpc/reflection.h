#pragma once

#include <span>
#include <string_view>

#include "server/protocol/grpc/message.h"

// Server reflection. The versions v1 and v1alpha have the same wire format.
namespace sluice::server::grpc {

// Answers one ServerReflectionRequest with the services of `paths` and of this folder, and with
// descriptors of messages that are linked in. Errors: kInvalidArgument. If something is not found,
// the reply's message says so.
void answer_reflection(std::string_view request, std::span<const std::string_view> paths,
                       Reply& reply);

}  // namespace sluice::server::grpc
