#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// The name in "Example.com.:8080" as rules compare it, "example.com": in lower case, without what
// follows the colon and without a dot at its end; of "[::1]:80" the address. A view of `authority`,
// unless it has upper case: then of `buffer`, which is overwritten.
std::string_view host_name(std::string_view authority, std::string& buffer);

}  // namespace sluice::server
