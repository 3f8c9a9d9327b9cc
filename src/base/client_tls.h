#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "sluice/expected.h"

namespace sluice::base {

// What a client of TLS trusts, and what it presents. Files in PEM.
struct ClientTls {
  std::string ca_file = {};      // the authorities; empty: the system's
  std::string cert_file = {};    // the client's certificate and its chain; empty: none
  std::string key_file = {};     // the certificate's key; may be the same file
  bool verify = true;            // false: any server is accepted
  std::string server_file = {};  // its first certificate is trusted, no other; empty: ca_file
};

// Makes the context of all TLS connections: TLS 1.2 or newer, the authorities, the client's
// certificate. Errors: a file that cannot be read or used, with its name and the reason.
Expected<std::shared_ptr<boost::asio::ssl::context>> make_tls(const ClientTls& options);

// Prepares the handshake: the client sends `name` for SNI and, if `verify`, accepts a certificate
// for that name only. An IP address is not sent; it is compared with the certificate's addresses.
// Returns false without memory, or if OpenSSL does not accept the name.
bool expect_server(SSL& session, const std::string& name, bool verify) noexcept;

// Returns why a file cannot be read, because the message of OpenSSL is hard to understand; empty if
// it can be.
std::string why_unreadable(const std::string& file);

// Returns why a handshake failed, in particular what is wrong with the certificate.
std::string why_tls_failed(SSL& session, const boost::system::error_code& error);

}  // namespace sluice::base
