#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "sluice/expected.h"
#include "sluice/redis_store.h"

namespace sluice::redis {

// Makes what all TLS connections share: TLS 1.2 or newer, the authorities, the client's
// certificate. Errors: a file that cannot be read or used, with its name and why.
Expected<std::shared_ptr<boost::asio::ssl::context>> make_tls(const RedisOptions& options);

// Prepares the handshake: sends `name` for SNI and, if `verify`, checks that the certificate is for
// it. An IP address is not sent, and is compared with the certificate's addresses. False: out of
// memory, or not a possible name.
bool expect_server(SSL& session, const std::string& name, bool verify) noexcept;

// Returns why a handshake failed, in particular what is wrong with the certificate.
std::string why_tls_failed(SSL& session, const boost::system::error_code& error);

}  // namespace sluice::redis
