#include "server/runtime/grpc_front_end.h"

#include <utility>

#include "server/net/tls.h"
#include "server/protocol/grpc/front_end.h"
#include "server/runtime/rls_handler.h"

namespace sluice::server {
namespace {

class GrpcFrontEnd final : public FrontEnd {
 public:
  explicit GrpcFrontEnd(const FrontEndParts& parts) : FrontEnd("grpc", parts.config.grpc, parts) {}

  Expected<bool> reload() override {
    if (!tls_) return true;
    if (const auto read = tls_->reload(); !read) {
      return Unexpected{"the gRPC certificate was not replaced: " + read.error()};
    }
    return true;
  }

 protected:
  Expected<bool> prepare() override {
    const net::TlsFiles& files = parts().config.grpc_tls;
    if (files.cert_file.empty()) return true;
    auto tls = net::TlsContext::open(files);
    if (!tls) return Unexpected{"gRPC: " + tls.error()};
    tls_ = std::move(*tls);
    return true;
  }
  Expected<bool> check() override {
    if (access().nobody_operates()) log_that_nobody_operates();
    return true;
  }
  std::unique_ptr<net::LoopFrontEnd> make(const LoopServices& loop,
                                          const net::Acceptor::Parts& accept,
                                          net::ListeningSocket socket) override {
    const GrpcConfig& grpc = parts().config.grpc_options;
    return std::make_unique<grpc::FrontEnd>(
        grpc::FrontEnd::Parts{
            .bounds = bounds(),
            .paths = rls_paths(),
            .most_streams = grpc.streams,
            .ages = {grpc.max_age},
            .tls = tls_,
            .serving = parts().ready,
            .make =
                [&envoy = parts().envoy, session = loop.session, &access = access()] {
                  return make_rls_handler({session(), envoy}, access);
                },
            .fibers = loop.fibers},
        accept, std::move(socket));
  }

 private:
  std::shared_ptr<net::TlsContext> tls_;  // null: plaintext
};

}  // namespace

std::unique_ptr<FrontEnd> make_grpc_front_end(const FrontEndParts& parts) {
  return std::make_unique<GrpcFrontEnd>(parts);
}

}  // namespace sluice::server
