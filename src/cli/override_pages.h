#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>

#include "cli/admin_client.h"

namespace sluice::cli {

// Calls `take` with each override of a server, as GET /v1/overrides answers it; of one rule if
// `rule` is not empty. Returns how many. Errors: why they cannot be read.
Expected<std::size_t, Failed> for_each_override(
    AdminClient& client, const std::string& rule,
    const std::function<void(const boost::json::object&)>& take);

// Prints the error of `sluice overrides COMMAND`, and returns its exit status.
int finish_overrides(const char* command, const Expected<int, Failed>& result);

}  // namespace sluice::cli
