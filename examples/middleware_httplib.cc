// Limits in a server made with cpp-httplib.
#include <httplib.h>
#include <sluice/middleware/httplib.h>
#include <sluice/sluice.h>

#include <cstdio>
#include <thread>

using namespace std::chrono_literals;

int main() {
  // [start httplib]
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  static constexpr sluice::Limit kPerClient = sluice::sliding_window_log(2).per(60s);

  httplib::Server server;
  server.set_pre_routing_handler(
      sluice::httplib_limits(limiter, [](const httplib::Request& request) {
        return std::vector{sluice::NamedCharge{"client", request.remote_addr, kPerClient}};
      }));
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("hello\n", "text/plain");
  });
  // [end httplib]

  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread serving([&server] { server.listen_after_bind(); });
  httplib::Client client("127.0.0.1", port);
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.Get("/");
    if (!answer) {
      std::puts("no answer");
      break;
    }
    std::printf("%d, %s left: %s", answer->status,
                answer->get_header_value("X-RateLimit-Remaining").c_str(), answer->body.c_str());
    if (answer->has_header("Retry-After")) std::puts("it says when to retry");
  }
  server.stop();
  serving.join();
}
