#pragma once

#include <optional>

#include "server/api/admin/admin_token.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"

namespace sluice::server {

// Returns why a request to the administration is refused, or nothing.
//
// With a token, the request must present it (401). Without a token, the listener is bound to
// loopback, but web pages in a browser of the same machine could still reach it (403). Therefore a
// request from a web page is refused. A host name other than localhost is refused too, because DNS
// rebinding could have pointed it here.
std::optional<Problem> find_refusal(const http::Request& request, const AdminToken& token);

}  // namespace sluice::server
