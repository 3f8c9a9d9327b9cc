#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// Returns the host name of "Example.com.:8080" as rules compare it, "example.com": in lower case,
// without the port and without a trailing dot. For "[::1]:80" returns the address. Returns a view
// of `authority`, or, if that has upper case, of `buffer`, which is overwritten.
std::string_view host_name(std::string_view authority, std::string& buffer);

}  // namespace sluice::server
