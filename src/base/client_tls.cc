#include "base/client_tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/quoted.h"

namespace sluice::base {

std::string why_unreadable(const std::string& file) {
  if (std::ifstream(file).good()) return {};
  return std::generic_category().message(errno);
}

namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Unexpected<std::string> cannot_use(std::string_view what, const std::string& file,
                                   std::string_view why) {
  ERR_clear_error();
  return {"cannot use the " + std::string(what) + " in " + in_quotes(file) + ": " +
          std::string(why)};
}

Status check_readable(std::string_view what, const std::string& file) {
  const std::string why = why_unreadable(file);
  return why.empty() ? Status() : cannot_use(what, file, why);
}

Status use_authorities(ssl::context& context, const std::string& file) {
  error_code error;
  if (file.empty()) {
    context.set_default_verify_paths(error);
    if (error) return Unexpected{"the system's certificate authorities: " + error.message()};
    return {};
  }
  if (auto readable = check_readable("authorities", file); !readable) return readable;
  context.load_verify_file(file, error);
  if (error) return cannot_use("authorities", file, "expected certificates in PEM");
  return {};
}

// An authority next to it in the file would vouch for other servers, too.
Status use_server_certificate(ssl::context& context, const std::string& file) {
  if (auto readable = check_readable("certificate", file); !readable) return readable;
  const std::unique_ptr<BIO, void (*)(BIO*)> bio(BIO_new_file(file.c_str(), "r"), BIO_free_all);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr, X509_free);
  SSL_CTX* const made = context.native_handle();
  if (!certificate || X509_STORE_add_cert(SSL_CTX_get_cert_store(made), certificate.get()) != 1) {
    return cannot_use("certificate", file, "expected a certificate in PEM");
  }
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(made), X509_V_FLAG_PARTIAL_CHAIN);
  return {};
}

Status use_own_certificate(ssl::context& context, const ClientTls& options) {
  if (options.cert_file.empty()) return {};
  if (auto ok = check_readable("certificate", options.cert_file); !ok) return ok;
  if (auto ok = check_readable("key", options.key_file); !ok) return ok;
  error_code error;
  context.use_certificate_chain_file(options.cert_file, error);
  if (error) return cannot_use("certificate", options.cert_file, "expected a certificate in PEM");
  // Without this OpenSSL would ask on the terminal.
  context.set_password_callback([](std::size_t, ssl::context::password_purpose) { return ""; },
                                error);
  context.use_private_key_file(options.key_file, ssl::context::pem, error);
  if (error) {
    return cannot_use("key", options.key_file,
                      "expected a private key in PEM without a passphrase, which belongs to the "
                      "certificate in " +
                          in_quotes(options.cert_file));
  }
  return {};
}

}  // namespace

Expected<std::shared_ptr<ssl::context>> make_tls(const ClientTls& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  if (SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION) != 1) {
    return Unexpected{"this OpenSSL does not support TLS 1.2 or newer"};
  }
  error_code error;
  context->set_verify_mode(options.verify ? ssl::verify_peer : ssl::verify_none, error);
  if (options.verify) {
    auto ok = options.server_file.empty() ? use_authorities(*context, options.ca_file)
                                          : use_server_certificate(*context, options.server_file);
    if (!ok) return Unexpected{ok.error()};
  }
  if (auto ok = use_own_certificate(*context, options); !ok) return Unexpected{ok.error()};
  ERR_clear_error();
  return context;
}

bool expect_server(SSL& session, const std::string& name, bool verify) noexcept {
  error_code not_an_address;
  (void)boost::asio::ip::make_address(name, not_an_address);
  if (not_an_address && SSL_set_tlsext_host_name(&session, name.c_str()) != 1) return false;
  if (!verify) return true;
  if (not_an_address) {
    SSL_set_hostflags(&session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(&session, name.c_str()) == 1;
  }
  return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(&session), name.c_str()) == 1;
}

std::string why_tls_failed(SSL& session, const error_code& error) {
  const long verdict = SSL_get_verify_result(&session);
  if (verdict == X509_V_OK) return "TLS: " + error.message();
  return std::string("TLS: the server's certificate is not accepted: ") +
         X509_verify_cert_error_string(verdict);
}

}  // namespace sluice::base
