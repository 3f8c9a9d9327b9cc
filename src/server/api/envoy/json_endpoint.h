#pragma once

#include <string>
#include <string_view>

#include "server/api/envoy/rls_service.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// Returns why a text is not JSON (RFC 8259) in UTF-8 with at most 32 levels and without repeated
// members in an object, or an empty text. Protobuf's own reader is less strict. As in Protobuf,
// `hits_addend` and `hitsAddend` are the same name.
std::string find_json_mistake(std::string_view text);

// POST /json: a RateLimitRequest and its answer in protobuf's JSON format. Answers 200 if the
// request may pass, 429 if not, 400 if the body is not a request, and 503 if the store cannot
// decide and its policy is `error`. `may_operate`: see RlsService::call().
void answer_json(RlsService& service, const http::Request& request, bool may_operate,
                 http::Response& response);

}  // namespace sluice::server
