#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "sluice/expected.h"
#include "sluice/redis_store.h"

namespace sluice::redis {

// What all connections by TLS share: TLS 1.2 or newer, the authorities, this client's certificate.
// Errors: a file that cannot be read or used, with its name and why.
Expected<std::shared_ptr<boost::asio::ssl::context>> make_tls(const RedisOptions& options);

// Before the handshake: sends `name` for SNI and, where `verify`, has the certificate be for it. An
// IP address is not sent, and is compared with the certificate's addresses. Errors: out of memory,
// or no possible name.
bool expect_server(SSL& session, const std::string& name, bool verify) noexcept;

// Why a handshake failed, in words: what is wrong with the certificate, where it is that.
std::string why_tls_failed(SSL& session, const boost::system::error_code& error);

}  // namespace sluice::redis
