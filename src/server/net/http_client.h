#pragma once

#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/net/address.h"
#include "sluice/http_fields.h"

namespace sluice::server::net {

// A connection to an HTTP server without TLS, whose caller waits for each answer.
//
// Thread-safety: one thread at a time. Never repeats a request.
class HttpClient {
 public:
  struct Options {
    std::chrono::milliseconds connect{5'000};  // the longest time for each
    std::chrono::milliseconds answer{60'000};
    std::size_t longest_answer = std::size_t{64} << 20;  // bytes of a body
  };
  struct Answer {
    unsigned status = 0;
    std::string body;
  };

  explicit HttpClient(const Options& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Connects to the first address of the host that accepts.
  boost::system::error_code open(const Address& address);
  // Sends a request with these header fields, `Host` among them. A refusal is an answer.
  boost::system::error_code ask(std::string_view method, std::string_view target,
                                std::span<const HttpField> fields, std::string body,
                                Answer& answer);

 private:
  class Connection;

  const Options options_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace sluice::server::net
