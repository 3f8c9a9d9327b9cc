#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "sluice/expected.h"

struct ssl_ctx_st;
struct ssl_st;

namespace sluice::server::net {

// The TLS files of a listener, PEM. No `cert_file`: the listener expects plaintext.
struct TlsFiles {
  std::string cert_file;        // the server's certificate and its chain
  std::string key_file;         // the certificate's key
  std::string client_ca_file;   // the authorities of client certificates; empty: asks for none
  bool requires_client = true;  // refuses clients without a certificate
};

// The certificate of a listener, and what it expects of its clients: TLS 1.2 or later with forward
// secrecy and authenticated encryption.
//
// Thread-safety: any thread after construction. Outlives its connections.
class TlsContext {
 public:
  // `protocol` is the name of the application protocol for ALPN, a literal; empty: none. A client
  // that does not use ALPN is accepted. Errors: the file and the reason.
  static Expected<std::unique_ptr<TlsContext>> open(const TlsFiles& files,
                                                    std::string_view protocol);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the files again, for new connections. Errors: as open(); the previous certificate stays.
  Status reload();
  // Returns the TLS state of one connection. Free it with SSL_free(). Errors: std::bad_alloc.
  ssl_st* make() const;
  std::string_view protocol() const noexcept { return protocol_; }

 private:
  using Context = std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)>;

  TlsContext(const TlsFiles& files, std::string_view protocol);
  Expected<Context> read();

  const TlsFiles files_;
  const std::string_view protocol_;
  mutable std::mutex mutex_;
  Context context_;
};

}  // namespace sluice::server::net
