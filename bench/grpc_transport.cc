// Only the gRPC transport: answers every call with the same OK. For h2load, see grpc_baseline.cc.
//
//   grpc_transport 127.0.0.1:8081 [CERT KEY]

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <string>

#include "server/logging/log.h"
#include "server/net/address.h"
#include "server/net/tls_context.h"
#include "server/protocol/grpc/connection.h"

namespace {

using namespace sluice::server;

class AlwaysOk final : public grpc::Handler {
 public:
  void handle(const grpc::Call&, grpc::Reply& answer) override {
    // overall_code OK; one status: OK, 5 per minute, 4 remaining, 10 s.
    constexpr std::string_view kAnswer(
        "\x08\x01\x12\x0e\x08\x01\x12\x04\x08\x05\x10\x02\x18\x04\x22\x02\x08\x0a", 18);
    answer.bytes = kAnswer;
  }
  void finished(const grpc::Call&, const grpc::Reply&, std::chrono::nanoseconds) override {}
};

}  // namespace

int main(int count, char** arguments) {
  const auto address = parse_address(count > 1 ? arguments[1] : "127.0.0.1:0");
  auto listening = net::listen_at(address.value(), 1);
  if (!listening) {
    std::fprintf(stderr, "%s\n", listening.error().c_str());
    return 1;
  }
  std::unique_ptr<net::TlsContext> tls;
  if (count > 3) tls = net::TlsContext::open({arguments[2], arguments[3], {}}, "h2").value();
  boost::asio::io_context loop{1};
  sluice::metrics::Registry registry;
  Log log{{}};
  Bounds bounds;
  bounds.connections = 20'000;
  std::atomic<std::size_t> connections{0};
  const net::Readiness serving = true;
  grpc::FrontEnd front_end(
      {.bounds = bounds,
       .paths = {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
       .serving = serving,
       .make = [] { return std::make_unique<AlwaysOk>(); }},
      {.loop = loop,
       .recorder = registry.make_recorder(),
       .warn = warning_writer(log),
       .connections = connections,
       .most = bounds.connections,
       .clock = net::LoopClock::system(),
       .tls = tls.get(),
       .handshake_timeout = bounds.header_timeout},
      std::move(listening->sockets[0]));
  std::printf("ready %s\n", listening->name.c_str());
  std::fflush(stdout);
  loop.run();
}
