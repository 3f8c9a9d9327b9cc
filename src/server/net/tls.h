#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "sluice/expected.h"

struct ssl_ctx_st;
struct ssl_st;

namespace sluice::server::net {

// What a listener needs for TLS.
struct TlsFiles {
  std::string cert_file;       // the server's certificate and those above it, PEM
  std::string key_file;        // its key, PEM
  std::string client_ca_file;  // who vouches for clients, PEM; empty: these need no certificate
};

// TLS 1.2 and later, for HTTP/2 alone (ALPN "h2"). Thread-safety: any thread, once it is made.
class TlsContext {
 public:
  // Errors: which file, and why.
  static Expected<std::shared_ptr<TlsContext>> open(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the files again, for connections that come from now on. Errors: as open(); what it had
  // stays then.
  Expected<bool> reload();
  // What one connection needs, to be freed by SSL_free(). Errors: std::bad_alloc.
  ssl_st* make() const;

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  using Context = std::unique_ptr<ssl_ctx_st, Free>;

  TlsContext(const TlsFiles& files, Context context);
  static Expected<Context> read(const TlsFiles& files);

  const TlsFiles files_;
  mutable std::mutex mutex_;
  Context context_;
};

// A connected socket, perhaps with TLS on it, whose handshake comes by itself with the first
// read(). Never blocks. Ownership: owns the socket.
class Wire {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // Null: plaintext.
  Wire(Socket socket, const TlsContext* tls);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // As read_some() and write_some(): would_block where there is nothing to read, or no room.
  std::size_t read(char* to, std::size_t room, boost::system::error_code& why);
  std::size_t write(const char* bytes, std::size_t size, boost::system::error_code& why);
  // After would_block of read(): TLS has something to write before, so wait for room.
  bool read_waits_for_room() const noexcept { return wants_room_; }
  // Whether there may be more to read, which no wait would tell.
  bool may_have_more() const noexcept { return tls_ != nullptr; }
  // Says that nothing more will be written.
  void finish();
  Socket& socket() noexcept { return socket_; }

 private:
  bool understands_http2() const;
  std::size_t outcome(int result, boost::system::error_code& why);

  Socket socket_;
  ssl_st* tls_ = nullptr;
  bool wants_room_ = false;
  bool agreed_ = false;  // on HTTP/2
};

}  // namespace sluice::server::net
