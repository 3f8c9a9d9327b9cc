#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/store_flags.h"
#include "server/net/address.h"
#include "sluice/expected.h"

namespace CLI {
class App;
}

namespace sluice::cli {

// A connection to the administration of a server, whose caller waits for every answer.
//
// Not thread-safe. Never repeats a request. An answer that takes longer than a minute is an error.
class AdminClient {
 public:
  struct Answer {
    unsigned status = 0;
    std::string body;

    // The body as a JSON object; nothing if it is none.
    std::optional<boost::json::object> json() const;
  };

  // `token` may be empty. Errors: why the server cannot be reached.
  static Expected<std::unique_ptr<AdminClient>> connect(const std::string& address,
                                                        std::string token);
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  // Errors: why there is no answer. A refusal is an answer.
  Expected<Answer> ask(std::string_view method, std::string_view target, std::string body = {});
  // The error of a refusal: "WHAT; EXPECTED".
  std::string refusal(const Answer& answer) const;
  // Says that the peer answered like another program.
  std::string strange() const;

 private:
  using Protocol = boost::asio::generic::stream_protocol;
  using Stream = boost::beast::basic_stream<Protocol>;
  using Request = boost::beast::http::request<boost::beast::http::string_body>;

  AdminClient(std::string shown, std::string host, std::string token)
      : shown_(std::move(shown)), host_(std::move(host)), token_(std::move(token)) {}
  boost::beast::error_code open(const server::Address& address);
  boost::beast::error_code exchange(Request& request, Answer& answer);

  const std::string shown_;  // the address
  const std::string host_;
  const std::string token_;
  boost::asio::io_context loop_{1};
  Stream stream_{loop_};
  boost::beast::flat_buffer buffer_;
};

// The flags of a subcommand that select a server's administration.
struct AdminFlags {
  std::string admin;
  std::string config;
  std::string token_file;
};

// Adds --admin, --config and --token-file.
std::shared_ptr<AdminFlags> add_admin_flags(CLI::App& command);
// Connects to the address of the flags, or of the configuration file, with its token.
Expected<std::unique_ptr<AdminClient>, Failed> connect_to(const AdminFlags& flags);

// Returns the text as a part of a path or of a query: other bytes than letters, digits and "-._~"
// are written as %XX.
std::string url_encoded(std::string_view text);

}  // namespace sluice::cli
