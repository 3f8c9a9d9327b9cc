#pragma once

#include <optional>

#include "server/api/admin/admin_token.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {

// Why a request to the administration is refused, or nothing.
//
// With a token: it has to be presented (401). Without one the listener is bound to loopback, where
// web pages in a browser of the same machine could still reach it (403): so what such a page made
// is refused, and so is a host that is a name other than localhost, as it could have been pointed
// here (DNS rebinding).
std::optional<Problem> find_refusal(const http::Request& request, const AdminToken& token);

}  // namespace sluice::server
