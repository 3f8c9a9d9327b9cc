#pragma once

#include <cstdint>

#include "server/decide/session.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

enum class PermitAction : std::uint8_t { kRelease, kExtend };

// POST /v1/release and /v1/extend: end a permit that /v1/check has handed out, or start its lease
// again. The body is {"permit":"TEXT"} (docs/http.md).
void answer_permit(PermitAction action, Session& session, const http::Request& request,
                   http::Response& response);

}  // namespace sluice::server
