#include "server/net/transport.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>

#include "base/quoted.h"

namespace sluice::server::net {
namespace {

using boost::system::error_code;

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

// Unlike OpenSSL's own BIO, raises no SIGPIPE.
int bio_write(BIO* bio, const char* bytes, int size) {
  const auto result =
      ::send(bio_descriptor(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  return retry(bio, result, [](BIO* of) { BIO_set_retry_write(of); });
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* socket_method() {
  using Method = std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)>;
  static const Method method = [] {
    Method made(::BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket"), ::BIO_meth_free);
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

// Returns the reason of a failed handshake, and clears the error queue of OpenSSL. Returns an empty
// text if the client just left.
std::string reason_of(SSL* ssl, std::string_view protocol) {
  const unsigned long code = ::ERR_peek_last_error();
  ::ERR_clear_error();
  if (code == 0) return {};
  const int reason = ERR_GET_REASON(code);
  if (reason == SSL_R_NO_APPLICATION_PROTOCOL) {
    return "the client offers other protocols by ALPN; expected " + std::string(protocol) +
           ", or no ALPN";
  }
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    return std::string("the client's certificate is not accepted: ") +
           ::X509_verify_cert_error_string(::SSL_get_verify_result(ssl));
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return "the client sent no certificate";
  const char* const text = ::ERR_reason_error_string(code);
  return text != nullptr ? text : "OpenSSL gives no reason";
}

}  // namespace

TlsSession::TlsSession(const TlsContext& context, int descriptor)
    : context_(context), descriptor_(descriptor), ssl_(context.make(), ::SSL_free) {
  BIO* const bio = socket_bio(descriptor);
  ::SSL_set_bio(ssl_.get(), bio, bio);
  ::SSL_set_accept_state(ssl_.get());
}

TlsSession::Progress TlsSession::shake_hands() {
  if (!begun_) {
    if (const Progress first = first_byte(); first != Progress::kDone) return first;
    begun_ = true;
  }
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(ssl_.get());
  if (result == 1) return Progress::kDone;
  switch (::SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ: return Progress::kNeedsInput;
    case SSL_ERROR_WANT_WRITE: return Progress::kNeedsRoom;
    default: return failed();
  }
}

// Looks at the first byte: that of TLS begins a handshake record. Returns kDone if it does.
TlsSession::Progress TlsSession::first_byte() const {
  constexpr char kHandshakeRecord = 0x16;
  char first = 0;
  const ssize_t got = ::recv(descriptor_, &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Progress::kNeedsInput;
  if (got <= 0) return Progress::kLeft;
  return first == kHandshakeRecord ? Progress::kDone : Progress::kPlaintext;
}

TlsSession::Progress TlsSession::failed() {
  why_ = reason_of(ssl_.get(), context_.protocol());
  return why_.empty() ? Progress::kLeft : Progress::kFailed;
}

std::vector<std::string> TlsSession::certificate_names() const {
  const X509* const certificate = ::SSL_get0_peer_certificate(ssl_.get());
  if (certificate == nullptr || ::SSL_get_verify_result(ssl_.get()) != X509_V_OK) return {};
  return names_of(*certificate);
}

std::size_t TlsSession::read(char* to, std::size_t room, error_code& why) {
  why = {};
  std::size_t got = 0;
  const int result = ::SSL_read_ex(ssl_.get(), to, room, &got);
  if (result == 1) return got;
  // A client that asks for other keys and leaves no room for the answer gets none.
  why = why_not(result, SSL_ERROR_WANT_READ, boost::asio::error::eof);
  return 0;
}

std::size_t TlsSession::write(const char* bytes, std::size_t size, error_code& why) {
  why = {};
  std::size_t sent = 0;
  const int result = ::SSL_write_ex(ssl_.get(), bytes, size, &sent);
  if (result == 1) return sent;
  why = why_not(result, SSL_ERROR_WANT_WRITE, boost::asio::error::broken_pipe);
  return 0;
}

// Returns would_block if OpenSSL only waits for that, else `end`.
error_code TlsSession::why_not(int result, int waits_for, error_code end) const {
  const int error = ::SSL_get_error(ssl_.get(), result);
  ::ERR_clear_error();
  return error == waits_for ? error_code(boost::asio::error::would_block) : end;
}

void TlsSession::finish() {
  ::SSL_shutdown(ssl_.get());
  ::ERR_clear_error();
}

namespace {

void add(std::vector<std::string>& names, std::string name) {
  if (!name.empty() && name.find('\0') == name.npos) names.push_back(std::move(name));
}

std::string text_of(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(::ASN1_STRING_get0_data(string)),
          static_cast<std::size_t>(::ASN1_STRING_length(string))};
}

void add_alternative_names(std::vector<std::string>& names, const X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> all(
      static_cast<GENERAL_NAMES*>(
          ::X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      ::GENERAL_NAMES_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const one = sk_GENERAL_NAME_value(all.get(), i);
    if (one->type == GEN_DNS) add(names, base::lower_case(text_of(one->d.dNSName)));
    if (one->type == GEN_URI) add(names, text_of(one->d.uniformResourceIdentifier));
  }
}

void add_common_name(std::vector<std::string>& names, const X509& certificate) {
  const X509_NAME* const subject = ::X509_get_subject_name(&certificate);
  const int at = ::X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return;
  unsigned char* text = nullptr;
  const int size =
      ::ASN1_STRING_to_UTF8(&text, ::X509_NAME_ENTRY_get_data(::X509_NAME_get_entry(subject, at)));
  if (size < 0) return;
  add(names, {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)});
  ::OPENSSL_free(text);
}

}  // namespace

std::vector<std::string> names_of(const X509& certificate) {
  std::vector<std::string> names;
  add_alternative_names(names, certificate);
  if (names.empty()) add_common_name(names, certificate);
  return names;
}

void answer_plaintext(int descriptor, std::string_view answer) {
  char input[4096];
  while (::recv(descriptor, input, sizeof input, MSG_DONTWAIT) == sizeof input) continue;
  [[maybe_unused]] const auto sent =
      ::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(descriptor, SHUT_WR);
}

bool has_left(int descriptor) noexcept {
  pollfd one{descriptor, POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0;
}

std::size_t Transport::read(char* to, std::size_t room, error_code& why) {
  if (tls_) return tls_->read(to, room, why);
  ssize_t got = 0;
  do {
    got = ::recv(descriptor_, to, room, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  why = {};
  if (got == 0) why = boost::asio::error::eof;
  if (got < 0) why.assign(errno, boost::system::system_category());
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::size_t Transport::write(const char* bytes, std::size_t size, error_code& why) {
  if (tls_) return tls_->write(bytes, size, why);
  ssize_t sent = 0;
  do {
    sent = ::send(descriptor_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  why = {};
  if (sent < 0) why.assign(errno, boost::system::system_category());
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

void Transport::finish() {
  if (tls_) tls_->finish();
  ::shutdown(descriptor_, SHUT_WR);
}

}  // namespace sluice::server::net
