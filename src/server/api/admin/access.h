#pragma once

#include <optional>

#include "server/api/admin/admin_token.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {

// Returns why a request to the administration is refused (401), or nothing. With a token, the
// request must present it, or the client the certificate of an admin.
std::optional<Problem> check_token(const http::Request& request, const AdminToken& token);

}  // namespace sluice::server
