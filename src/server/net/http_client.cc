#include "server/net/http_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>
#include <vector>

#include "base/client_tls.h"
#include "base/lookups.h"

namespace sluice::server::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::beast::error_code;
using Protocol = asio::generic::stream_protocol;

class HttpClient::Connection {
 public:
  using Stream = boost::beast::basic_stream<Protocol>;
  using Request = http::request<http::string_body>;
  using Parser = http::response_parser<http::string_body>;

  asio::io_context loop{1};
  Stream stream{loop};
  std::optional<asio::ssl::stream<Stream&>> tls;  // over `stream`
  boost::beast::flat_buffer buffer;

  // Runs the operation that has begun.
  void run() {
    loop.restart();
    loop.run();
  }
  template <typename Over>
  error_code ask(Over& over, const Request& request, Parser& parser) {
    error_code wrote, read;
    http::async_write(over, request, [&](error_code error, std::size_t) {
      wrote = error;
      // A server may have refused and closed already.
      http::async_read(over, buffer, parser, [&read](error_code why, std::size_t) { read = why; });
    });
    run();
    return wrote && read && read.category() != asio::error::get_ssl_category() ? wrote : read;
  }
  Failure failure(const error_code& why);
};

HttpClient::Failure HttpClient::Connection::failure(const error_code& why) {
  using enum Failure::Kind;
  if (why.category() == http::make_error_code(http::error::bad_version).category()) {
    return {why == http::error::end_of_stream ? kOther : kNoHttp, why.message()};
  }
  if (!tls || why.category() != asio::error::get_ssl_category()) return {kOther, why.message()};
  SSL& session = *tls->native_handle();
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(why.value()));
  if (reason == SSL_R_WRONG_VERSION_NUMBER) return {kNoTls, "the server does not use TLS"};
  const long verdict = SSL_get_verify_result(&session);
  const bool is_name =
      verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
  return {is_name                          ? kName
          : verdict != X509_V_OK           ? kCertificate
          : reason >= SSL_AD_REASON_OFFSET ? kAlert
                                           : kOther,
          base::why_tls_failed(session, why)};
}

HttpClient::HttpClient(const Options& options)
    : options_(options), connection_(std::make_unique<Connection>()) {}
HttpClient::~HttpClient() = default;

std::optional<HttpClient::Failure> HttpClient::open(const Address& address) {
  error_code why;
  std::vector<Protocol::endpoint> endpoints;
  if (address.kind == Address::Kind::kUnix) {
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(address.path));
  } else {
    base::Lookups lookups(connection_->loop);
    asio::steady_timer timer(connection_->loop, options_.connect);
    timer.async_wait([](error_code) {});
    why = asio::error::timed_out;
    lookups.find(address.host, std::to_string(address.port),
                 [&](const error_code& error, const base::Lookups::Endpoints& found) {
                   why = error;
                   endpoints.assign(found.begin(), found.end());
                   timer.cancel();
                 });
    connection_->run();
    if (why) return connection_->failure(why);
  }
  auto& stream = connection_->stream;
  stream.expires_after(options_.connect);
  stream.async_connect(endpoints, [&why](error_code error, const auto&) { why = error; });
  connection_->run();
  if (why) return connection_->failure(why);
  if (!options_.tls) return std::nullopt;
  auto& tls = connection_->tls.emplace(stream, *options_.tls);
  const std::string& name = options_.server_name;
  if (!name.empty() && !base::expect_server(*tls.native_handle(), name, true)) {
    return Failure{Failure::Kind::kName, "TLS: no certificate is for " + name};
  }
  tls.async_handshake(asio::ssl::stream_base::client, [&why](error_code error) { why = error; });
  connection_->run();
  if (why) return connection_->failure(why);
  return std::nullopt;
}

std::optional<HttpClient::Failure> HttpClient::ask(std::string_view method, std::string_view target,
                                                   std::span<const HttpField> fields,
                                                   std::string body, Answer& answer) {
  constexpr unsigned kVersion = 11;
  Connection::Request request(http::string_to_verb(method), target, kVersion);
  for (const HttpField& field : fields) request.set(field.name, field.value);
  request.body() = std::move(body);
  request.prepare_payload();
  Connection::Parser parser;
  parser.body_limit(options_.longest_answer);
  Connection& on = *connection_;
  on.stream.expires_after(options_.answer);
  const error_code why =
      on.tls ? on.ask(*on.tls, request, parser) : on.ask(on.stream, request, parser);
  if (why) return connection_->failure(why);
  answer.status = parser.get().result_int();
  answer.body = std::move(parser.get().body());
  return std::nullopt;
}

}  // namespace sluice::server::net
