#pragma once

#include <openssl/x509.h>

#include <string>
#include <vector>

namespace sluice::server::net {

// Returns the DNS names of a certificate, in lower case, and its URIs; or its common name if it has
// neither. Names with a NUL are left out.
std::vector<std::string> names_of(const X509& certificate);

}  // namespace sluice::server::net
