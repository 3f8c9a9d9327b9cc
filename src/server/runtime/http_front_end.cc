#include "server/runtime/http_front_end.h"

#include <utility>

#include "server/protocol/http/connection.h"
#include "server/runtime/public_handler.h"

namespace sluice::server {
namespace {

class HttpFrontEnd final : public FrontEnd {
 public:
  explicit HttpFrontEnd(const FrontEndParts& parts)
      : FrontEnd(listen_address("http"), "http/1.1", parts) {}

  std::string example() const override {
    if (!is_open()) return {};
    const std::string scheme = has_tls() ? "--insecure https://" : "http://";
    const std::string at =
        listening().unix_path.empty()
            ? scheme + listening().name + "/v1/check"
            : "--unix-socket " + listening().unix_path + " " + scheme + "localhost/v1/check";
    return "curl -i " + at +
           R"( -d '{"attributes":{"method":"POST","path":"/login","ip":"203.0.113.9"}}')";
  }

 protected:
  Expected<bool> check() override {
    if (access().nobody_operates()) log_that_nobody_operates();
    return true;
  }
  std::unique_ptr<net::LoopFrontEnd> make(const LoopServices& loop,
                                          const net::Acceptor::Parts& accept,
                                          net::ListeningSocket socket) override {
    CheckEndpoint::Waiting waiting;
    auto fibers = loop.fibers;
    if (!fibers) fibers.emplace();  // /metrics waits, whatever the store does
    if (bounds().waiting > 0) {
      waiting = {loop.waits, loop.sleeps};
      fibers->most += bounds().waiting;
    }
    const auto make_handler = [parts = parts(), loop, &access = access(), waiting] {
      return std::make_unique<PublicHandler>(
          PublicHandler::Parts{loop.session(), parts.envoy, parts.trusted, loop.recorder, parts.log,
                               parts.operations.in(loop.sleeps), access, waiting});
    };
    return std::make_unique<http::FrontEnd>(
        http::FrontEnd::Parts{bounds(), make_handler, fibers, role_of_certificate()}, accept,
        std::move(socket));
  }
};

}  // namespace

std::unique_ptr<FrontEnd> make_http_front_end(const FrontEndParts& parts) {
  return std::make_unique<HttpFrontEnd>(parts);
}

}  // namespace sluice::server
