#pragma once

#include <string_view>

#include "server/protocol/http/message.h"

namespace sluice::server {

// Answers a request for the live page (docs/live-page.md) or one of its files. They are the same
// for everybody and need no token; the page asks for it. Returns false if the path is none of them.
bool answer_live_page(std::string_view path, const http::Request& request,
                      http::Response& response);

}  // namespace sluice::server
