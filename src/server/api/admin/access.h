#pragma once

#include <optional>

#include "server/api/admin/admin_token.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {

// Returns why a request to the administration is refused, or nothing.
//
// With a token, the request must present it (401). Without a token, the listener is bound to
// loopback, but web pages in a browser of the same machine could still reach it: see web_page.h.
std::optional<Problem> find_refusal(const http::Request& request, const AdminToken& token);

}  // namespace sluice::server
