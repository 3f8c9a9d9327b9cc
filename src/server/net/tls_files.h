#pragma once

#include <string>

namespace sluice::server::net {

// The TLS files of a listener, PEM. No `cert_file`: the listener expects plaintext.
struct TlsFiles {
  std::string cert_file;        // the server's certificate and its chain
  std::string key_file;         // the certificate's key
  std::string client_ca_file;   // the authorities of client certificates; empty: asks for none
  bool requires_client = true;  // refuses clients without a certificate
};

}  // namespace sluice::server::net
