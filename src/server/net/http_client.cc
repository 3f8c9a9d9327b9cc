#include "server/net/http_client.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>
#include <vector>

namespace sluice::server::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::beast::error_code;
using Protocol = asio::generic::stream_protocol;

class HttpClient::Connection {
 public:
  asio::io_context loop{1};
  boost::beast::basic_stream<Protocol> stream{loop};
  boost::beast::flat_buffer buffer;

  // Runs the operation that has begun.
  void run() {
    loop.restart();
    loop.run();
  }
};

HttpClient::HttpClient(const Options& options)
    : options_(options), connection_(std::make_unique<Connection>()) {}
HttpClient::~HttpClient() = default;

error_code HttpClient::open(const Address& address) {
  error_code why;
  std::vector<Protocol::endpoint> endpoints;
  if (address.kind == Address::Kind::kUnix) {
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(address.path));
  } else {
    asio::ip::tcp::resolver resolver(connection_->loop);
    const auto found = resolver.resolve(address.host, std::to_string(address.port), why);
    if (why) return why;
    for (const auto& one : found) endpoints.emplace_back(one.endpoint());
  }
  auto& stream = connection_->stream;
  stream.expires_after(options_.connect);
  stream.async_connect(endpoints, [&why](error_code error, const auto&) { why = error; });
  connection_->run();
  return why;
}

error_code HttpClient::ask(std::string_view method, std::string_view target,
                           std::span<const HttpField> fields, std::string body, Answer& answer) {
  constexpr unsigned kVersion = 11;
  http::request<http::string_body> request(http::string_to_verb(method), target, kVersion);
  for (const HttpField& field : fields) request.set(field.name, field.value);
  request.body() = std::move(body);
  request.prepare_payload();
  error_code why;
  http::response_parser<http::string_body> parser;
  parser.body_limit(options_.longest_answer);
  auto& stream = connection_->stream;
  const auto read = [&](error_code error, std::size_t) {
    why = error;
    if (why) return;
    http::async_read(stream, connection_->buffer, parser,
                     [&why](error_code ended, std::size_t) { why = ended; });
  };
  stream.expires_after(options_.answer);
  http::async_write(stream, request, read);
  connection_->run();
  if (why) return why;
  answer.status = parser.get().result_int();
  answer.body = std::move(parser.get().body());
  return {};
}

}  // namespace sluice::server::net
