#pragma once

#include <openssl/x509.h>

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/net/tls_context.h"

namespace sluice::server::net {

// TLS on a connected socket that does not block. Borrows the socket and the context.
class TlsSession {
 public:
  enum class Progress : std::uint8_t {
    kDone,
    kNeedsInput,  // wait for input, then call again
    kNeedsRoom,   // wait for room, then call again
    kLeft,        // the client closed the connection
    kPlaintext,   // the client does not use TLS
    kFailed,      // see why()
  };

  // Errors: std::bad_alloc.
  TlsSession(const TlsContext& context, int descriptor);

  // Continues the handshake.
  Progress shake_hands();
  // Returns why the handshake failed.
  const std::string& why() const noexcept { return why_; }
  // Returns the names in the client's certificate: its DNS names, in lower case, and URIs; or its
  // common name if it has neither. Empty if the client has no certificate.
  std::vector<std::string> certificate_names() const;

  // After the handshake. Like read_some() and write_some(): would_block if there is nothing to read
  // or no room. A read returns at most one record and keeps none back.
  std::size_t read(char* to, std::size_t room, boost::system::error_code& why);
  std::size_t write(const char* bytes, std::size_t size, boost::system::error_code& why);
  // Announces that nothing more will be written.
  void finish();

 private:
  Progress first_byte() const;
  Progress failed();
  boost::system::error_code why_not(int result, int waits_for, boost::system::error_code end) const;

  const TlsContext& context_;
  const int descriptor_;
  const std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool begun_ = false;
  std::string why_;
};

// Returns the DNS names of a certificate, in lower case, and its URIs; or its common name if it has
// neither. Names with a NUL are left out.
std::vector<std::string> names_of(const X509& certificate);

// Answers a client that should use TLS, and ends the stream. Reads what has arrived before:
// otherwise the kernel would send a reset, which may overtake the answer.
void answer_plaintext(int descriptor, std::string_view answer);

// Whether the peer of a connected socket has closed the connection, at least its side of it.
bool has_left(int descriptor) noexcept;

// The bytes of a connected socket, plain or through TLS. Never blocks. Ownership: borrows the
// socket, owns its TLS.
class Transport {
 public:
  // `tls` is null for plaintext; its handshake is done.
  explicit Transport(int descriptor, std::unique_ptr<TlsSession> tls = nullptr)
      : descriptor_(descriptor), tls_(std::move(tls)) {}

  // would_block if there is nothing to read or no room; eof if the client sends no more. All that
  // can be read without a wait keeps the socket ready.
  std::size_t read(char* to, std::size_t room, boost::system::error_code& why);
  std::size_t write(const char* bytes, std::size_t size, boost::system::error_code& why);
  // Announces that nothing more will be written.
  void finish();

 private:
  int descriptor_;
  std::unique_ptr<TlsSession> tls_;
};

}  // namespace sluice::server::net
