#pragma once

#include <string>

namespace sluice::server {

// Returns the reference of the HTTP API and of the administration as an OpenAPI 3.1 document, from
// the tables by which the listeners find what answers (docs/openapi.json).
std::string openapi();

}  // namespace sluice::server
