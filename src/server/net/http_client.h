#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/net/address.h"
#include "sluice/http_fields.h"

namespace boost::asio::ssl {
class context;  // NOLINT(readability-identifier-naming)
}

namespace sluice::server::net {

// A connection to an HTTP server, whose caller waits for each answer.
//
// Thread-safety: one thread at a time. Never repeats a request.
class HttpClient {
 public:
  struct Options {
    std::chrono::milliseconds connect{5'000};  // the longest time for each, handshake included
    std::chrono::milliseconds answer{60'000};
    std::size_t longest_answer = std::size_t{64} << 20;   // bytes of a body
    std::shared_ptr<boost::asio::ssl::context> tls = {};  // null: plaintext
    std::string server_name = {};                         // of the server's certificate; empty: any
  };
  struct Answer {
    unsigned status = 0;
    std::string body;
  };
  // Why there is no connection or no answer.
  struct Failure {
    enum class Kind : std::uint8_t {
      kOther,
      kCertificate,  // the server's is not accepted
      kName,         // the server's is for another name
      kAlert,        // the server ended TLS, such as for want of a client certificate
      kNoTls,        // the server does not use TLS
      kNoHttp,       // the server speaks another protocol
    };
    Kind kind = Kind::kOther;
    std::string why;
  };

  explicit HttpClient(const Options& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Connects to the first address of the host that accepts.
  std::optional<Failure> open(const Address& address);
  // Sends a request with these header fields, `Host` among them. A refusal is an answer.
  std::optional<Failure> ask(std::string_view method, std::string_view target,
                             std::span<const HttpField> fields, std::string body, Answer& answer);

 private:
  class Connection;

  const Options options_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace sluice::server::net
