#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/net/tls_session.h"

namespace sluice::server::net {

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

  bool is_encrypted() const noexcept { return tls_ != nullptr; }
  // See TlsSession.
  std::vector<std::string> certificate_names() const {
    return tls_ ? tls_->certificate_names() : std::vector<std::string>();
  }

 private:
  int descriptor_;
  std::unique_ptr<TlsSession> tls_;
};

}  // namespace sluice::server::net
