#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "server/net/tls_files.h"
#include "sluice/expected.h"

struct ssl_ctx_st;
struct ssl_st;

namespace sluice::server::net {

// TLS 1.2 and later, only for HTTP/2 (ALPN "h2"). Thread-safety: any thread after construction.
class TlsContext {
 public:
  // Errors: the file and the reason.
  static Expected<std::shared_ptr<TlsContext>> open(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the files again, for new connections. Errors: as open(); the previous certificate stays.
  Expected<bool> reload();
  // Returns the TLS state of one connection. Free it with SSL_free(). Errors: std::bad_alloc.
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

// A connected socket, optionally with TLS. The first read() does the handshake. Never blocks.
// Ownership: owns the socket.
class Wire {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `tls` is null for plaintext.
  Wire(Socket socket, const TlsContext* tls);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Like read_some() and write_some(): would_block if there is nothing to read or no room.
  std::size_t read(char* to, std::size_t room, boost::system::error_code& why);
  std::size_t write(const char* bytes, std::size_t size, boost::system::error_code& why);
  // After would_block from read(): returns whether TLS has to write first, so wait for room.
  bool read_waits_for_room() const noexcept { return wants_room_; }
  // Returns whether there may be more to read that no wait would report.
  bool may_have_more() const noexcept { return tls_ != nullptr; }
  // Announces that nothing more will be written.
  void finish();
  Socket& socket() noexcept { return socket_; }

 private:
  bool understands_http2() const;
  std::size_t outcome(int result, boost::system::error_code& why);

  Socket socket_;
  ssl_st* tls_ = nullptr;
  bool wants_room_ = false;
  bool agreed_ = false;  // the client agreed to HTTP/2
};

}  // namespace sluice::server::net
