// Limits in a server made with Boost.Beast.
#include <sluice/middleware/beast.h>
#include <sluice/sluice.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdio>
#include <string>
#include <thread>

using namespace std::chrono_literals;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;

namespace {

constexpr sluice::Limit kPerUser = sluice::sliding_window_log(2).per(60s);

// [start beast]
http::response<http::string_body> handle(sluice::Limiter& limiter,
                                         const http::request<http::string_body>& request) {
  sluice::RequestDecision decision(limiter, {{"user", std::string(request["X-User"]), kPerUser}});
  if (!decision.allowed()) return sluice::beast_refusal(request, decision);

  http::response<http::string_body> response(http::status::ok, request.version(), "hello\n");
  sluice::put_fields(response, decision);
  response.prepare_payload();
  return response;
}
// [end beast]

// Answers the requests of one connection.
void serve(tcp::acceptor& acceptor, sluice::Limiter& limiter) {
  tcp::socket socket = acceptor.accept();
  boost::beast::flat_buffer buffer;
  for (;;) {
    http::request<http::string_body> request;
    boost::system::error_code error;
    http::read(socket, buffer, request, error);
    if (error) return;
    http::write(socket, handle(limiter, request));
  }
}

}  // namespace

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  boost::asio::io_context loop;
  tcp::acceptor acceptor(loop, {boost::asio::ip::address_v4::loopback(), 0});
  std::thread serving([&] { serve(acceptor, limiter); });

  tcp::socket socket(loop);
  socket.connect(acceptor.local_endpoint());
  boost::beast::flat_buffer buffer;
  for (int i = 0; i < 3; ++i) {
    http::request<http::empty_body> request(http::verb::get, "/", 11);
    request.set("X-User", "anna");
    http::write(socket, request);
    http::response<http::string_body> response;
    http::read(socket, buffer, response);
    std::printf("%u, %s left: %s", response.result_int(),
                std::string(response["X-RateLimit-Remaining"]).c_str(), response.body().c_str());
    if (response.count("Retry-After") > 0) std::puts("it says when to retry");
  }
  socket.close();
  serving.join();
}
