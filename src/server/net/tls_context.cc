#include "server/net/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <new>
#include <utility>

#include "base/client_tls.h"

namespace sluice::server::net {
namespace {

Unexpected<std::string> cannot_use(std::string_view what, const std::string& file,
                                   std::string_view why) {
  ::ERR_clear_error();
  return Unexpected{"cannot use the " + std::string(what) + " in " + file + ": " +
                    std::string(why)};
}

Status check_readable(std::string_view what, const std::string& file) {
  const std::string why = base::why_unreadable(file);
  return why.empty() ? Status() : cannot_use(what, file, why);
}

// Chooses the protocol of the listener if the client offers it.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* in, unsigned int in_size, void* of) {
  const std::string_view wanted = static_cast<const TlsContext*>(of)->protocol();
  for (unsigned int i = 0; i < in_size; i += 1U + in[i]) {
    const std::string_view offer(reinterpret_cast<const char*>(in) + i + 1, in[i]);
    if (offer != wanted) continue;
    *out = in + i + 1;
    *out_size = in[i];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Without this, OpenSSL would ask for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

SSL_CTX* new_context() {
  SSL_CTX* const made = ::SSL_CTX_new(::TLS_server_method());
  if (made == nullptr) throw std::bad_alloc();
  ::SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
  ::SSL_CTX_set_options(
      made, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  ::SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                               SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // One call must not read records without data for as long as a client sends them.
  ::SSL_CTX_clear_mode(made, SSL_MODE_AUTO_RETRY);
  // Sessions are in tickets, which take no memory here.
  ::SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  // HTTP/2 requires forward secrecy and authenticated encryption with TLS 1.2.
  ::SSL_CTX_set_cipher_list(made, "ECDHE+AESGCM:ECDHE+CHACHA20");
  ::SSL_CTX_set_default_passwd_cb(made, no_passphrase);
  return made;
}

Status use_certificate(SSL_CTX* context, const TlsFiles& files) {
  if (auto ready = check_readable("certificate", files.cert_file); !ready) return ready;
  if (auto ready = check_readable("key", files.key_file); !ready) return ready;
  if (::SSL_CTX_use_certificate_chain_file(context, files.cert_file.c_str()) != 1) {
    return cannot_use("certificate", files.cert_file, "expected a certificate chain in PEM");
  }
  if (::SSL_CTX_use_PrivateKey_file(context, files.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ::SSL_CTX_check_private_key(context) != 1) {
    return cannot_use("key", files.key_file,
                      "expected a private key in PEM without a passphrase, which belongs to the "
                      "certificate in " +
                          files.cert_file);
  }
  return {};
}

Status use_authorities(SSL_CTX* context, const TlsFiles& files) {
  constexpr std::string_view kWhat = "authorities";
  if (auto ready = check_readable(kWhat, files.client_ca_file); !ready) return ready;
  const char* const file = files.client_ca_file.c_str();
  STACK_OF(X509_NAME)* const names = ::SSL_load_client_CA_file(file);
  if (names == nullptr || ::SSL_CTX_load_verify_locations(context, file, nullptr) != 1) {
    sk_X509_NAME_pop_free(names, ::X509_NAME_free);
    return cannot_use(kWhat, files.client_ca_file, "expected certificates in PEM");
  }
  ::SSL_CTX_set_client_CA_list(context, names);
  const int required = files.requires_client ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | required, nullptr);
  // Every connection proves its certificate again.
  ::SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  ::SSL_CTX_set_num_tickets(context, 0);
  return {};
}

}  // namespace

TlsContext::TlsContext(const TlsFiles& files, std::string_view protocol)
    : files_(files), protocol_(protocol), context_(nullptr, ::SSL_CTX_free) {}

TlsContext::~TlsContext() = default;

Expected<std::unique_ptr<TlsContext>> TlsContext::open(const TlsFiles& files,
                                                       std::string_view protocol) {
  std::unique_ptr<TlsContext> made(new TlsContext(files, protocol));
  if (const auto read = made->reload(); !read) return Unexpected{read.error()};
  return made;
}

Status TlsContext::reload() {
  auto context = read();
  if (!context) return Unexpected{std::move(context.error())};
  const std::lock_guard lock(mutex_);
  context_.swap(*context);  // open connections keep their context
  return {};
}

ssl_st* TlsContext::make() const {
  const std::lock_guard lock(mutex_);
  ssl_st* const made = ::SSL_new(context_.get());
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

Expected<TlsContext::Context> TlsContext::read() {
  Context made(new_context(), ::SSL_CTX_free);
  if (!protocol_.empty()) ::SSL_CTX_set_alpn_select_cb(made.get(), choose_protocol, this);
  if (auto ready = use_certificate(made.get(), files_); !ready) return Unexpected{ready.error()};
  if (files_.client_ca_file.empty()) return made;
  if (auto ready = use_authorities(made.get(), files_); !ready) return Unexpected{ready.error()};
  return made;
}

}  // namespace sluice::server::net
