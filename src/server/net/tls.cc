#include "server/net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <new>
#include <utility>

namespace sluice::server::net {
namespace {

using boost::system::error_code;

constexpr unsigned char kH2[] = {2, 'h', '2'};

// Returns the newest error of OpenSSL and clears its error queue.
std::string why_not() {
  char text[256] = "no reason given";
  if (const auto code = ::ERR_peek_last_error(); code != 0) {
    ::ERR_error_string_n(code, text, sizeof text);
  }
  ::ERR_clear_error();
  return text;
}

int choose_h2(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
              unsigned int in_size, void*) {
  unsigned char* chosen = nullptr;
  const int result = ::SSL_select_next_proto(&chosen, out_size, kH2, sizeof kH2, in, in_size);
  *out = chosen;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Returns the socket of a BIO. Writing to it raises no SIGPIPE.
int bio_descriptor(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
}

int retry(BIO* bio, ssize_t result, void (*set)(BIO*)) {
  ::BIO_clear_retry_flags(bio);
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) set(bio);
  return static_cast<int>(result);
}

int bio_read(BIO* bio, char* to, int room) {
  const auto result = ::recv(bio_descriptor(bio), to, static_cast<std::size_t>(room), 0);
  return retry(bio, result, [](BIO* of) { BIO_set_retry_read(of); });
}

int bio_write(BIO* bio, const char* bytes, int size) {
  const auto result =
      ::send(bio_descriptor(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  return retry(bio, result, [](BIO* of) { BIO_set_retry_write(of); });
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

struct FreeMethod {
  void operator()(BIO_METHOD* method) const { ::BIO_meth_free(method); }
};

const BIO_METHOD* socket_method() {
  static const std::unique_ptr<BIO_METHOD, FreeMethod> method = [] {
    std::unique_ptr<BIO_METHOD, FreeMethod> made(::BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket"));
    if (!made) throw std::bad_alloc();
    ::BIO_meth_set_read(made.get(), bio_read);
    ::BIO_meth_set_write(made.get(), bio_write);
    ::BIO_meth_set_ctrl(made.get(), bio_control);
    return made;
  }();
  return method.get();
}

BIO* socket_bio(int descriptor) {
  BIO* const bio = ::BIO_new(socket_method());
  if (bio == nullptr) throw std::bad_alloc();
  ::BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  ::BIO_set_init(bio, 1);
  return bio;
}

SSL_CTX* new_context() {
  SSL_CTX* const made = ::SSL_CTX_new(::TLS_server_method());
  if (made == nullptr) throw std::bad_alloc();
  ::SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
  ::SSL_CTX_set_options(
      made, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  ::SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                               SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_alpn_select_cb(made, choose_h2, nullptr);
  // HTTP/2 requires forward secrecy and authenticated encryption with TLS 1.2.
  ::SSL_CTX_set_cipher_list(made, "ECDHE+AESGCM:ECDHE+CHACHA20");
  return made;
}

}  // namespace

void TlsContext::Free::operator()(ssl_ctx_st* context) const noexcept { ::SSL_CTX_free(context); }

TlsContext::TlsContext(const TlsFiles& files, Context context)
    : files_(files), context_(std::move(context)) {}

TlsContext::~TlsContext() = default;

Expected<std::shared_ptr<TlsContext>> TlsContext::open(const TlsFiles& files) {
  auto context = read(files);
  if (!context) return Unexpected{std::move(context.error())};
  return std::shared_ptr<TlsContext>(new TlsContext(files, std::move(*context)));
}

Expected<bool> TlsContext::reload() {
  auto context = read(files_);
  if (!context) return Unexpected{std::move(context.error())};
  const std::lock_guard lock(mutex_);
  context_.swap(*context);  // open connections keep their context
  return true;
}

ssl_st* TlsContext::make() const {
  const std::lock_guard lock(mutex_);
  ssl_st* const made = ::SSL_new(context_.get());
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

Expected<TlsContext::Context> TlsContext::read(const TlsFiles& files) {
  Context made(new_context());
  SSL_CTX* const context = made.get();
  if (::SSL_CTX_use_certificate_chain_file(context, files.cert_file.c_str()) != 1) {
    return Unexpected{"cannot use the certificate in " + files.cert_file + ": " + why_not()};
  }
  if (::SSL_CTX_use_PrivateKey_file(context, files.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Unexpected{"cannot use the key in " + files.key_file + ": " + why_not()};
  }
  if (::SSL_CTX_check_private_key(context) != 1) {
    return Unexpected{"the key in " + files.key_file + " does not belong to the certificate in " +
                      files.cert_file};
  }
  if (files.client_ca_file.empty()) return made;
  const char* const ca = files.client_ca_file.c_str();
  STACK_OF(X509_NAME)* const names = ::SSL_load_client_CA_file(ca);
  if (names == nullptr || ::SSL_CTX_load_verify_locations(context, ca, nullptr) != 1) {
    ::sk_X509_NAME_pop_free(names, ::X509_NAME_free);
    return Unexpected{"cannot use the authorities in " + files.client_ca_file + ": " + why_not()};
  }
  ::SSL_CTX_set_client_CA_list(context, names);
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  constexpr unsigned char kName[] = "sluice";
  ::SSL_CTX_set_session_id_context(context, kName, sizeof kName - 1);
  return made;
}

Wire::Wire(Socket socket, const TlsContext* tls) : socket_(std::move(socket)) {
  socket_.non_blocking(true);
  if (tls == nullptr) return;
  tls_ = tls->make();
  BIO* const bio = socket_bio(socket_.native_handle());
  ::SSL_set_bio(tls_, bio, bio);
  ::SSL_set_accept_state(tls_);
}

Wire::~Wire() { ::SSL_free(tls_); }

std::size_t Wire::read(char* to, std::size_t room, error_code& why) {
  why = {};
  if (tls_ == nullptr) return socket_.read_some(boost::asio::buffer(to, room), why);
  std::size_t got = 0;
  const int result = ::SSL_read_ex(tls_, to, room, &got);
  if (result == 1 && !agreed_ && !(agreed_ = understands_http2())) {
    why = boost::asio::error::no_protocol_option;
    return 0;
  }
  return result == 1 ? got : outcome(result, why);
}

std::size_t Wire::write(const char* bytes, std::size_t size, error_code& why) {
  why = {};
  if (tls_ == nullptr) return socket_.write_some(boost::asio::buffer(bytes, size), why);
  std::size_t sent = 0;
  const int result = ::SSL_write_ex(tls_, bytes, size, &sent);
  return result == 1 ? sent : outcome(result, why);
}

std::size_t Wire::outcome(int result, error_code& why) {
  const int error = ::SSL_get_error(tls_, result);
  ::ERR_clear_error();
  wants_room_ = error == SSL_ERROR_WANT_WRITE;
  if (error == SSL_ERROR_WANT_READ || wants_room_) {
    why = boost::asio::error::would_block;
  } else {
    why = boost::asio::error::eof;
  }
  return 0;
}

// Returns whether the client asked for HTTP/2 by ALPN.
bool Wire::understands_http2() const {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  ::SSL_get0_alpn_selected(tls_, &name, &size);
  return size == sizeof kH2 - 1;
}

void Wire::finish() {
  if (tls_ != nullptr && ::SSL_is_init_finished(tls_) == 1) {
    ::SSL_shutdown(tls_);
    ::ERR_clear_error();
  }
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace sluice::server::net
