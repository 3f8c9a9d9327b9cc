#include "server/runtime/grpc_front_end.h"

#include <utility>

#include "server/protocol/grpc/connection.h"
#include "server/runtime/rls_handler.h"

namespace sluice::server {
namespace {

class GrpcFrontEnd final : public FrontEnd {
 public:
  explicit GrpcFrontEnd(const FrontEndParts& parts)
      : FrontEnd(listen_address("grpc"), "h2", parts) {}

 protected:
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
            .serving = parts().ready,
            .make = [&envoy = parts().envoy, session = loop.session,
                     &access = access()] { return make_rls_handler({session(), envoy}, access); },
            .fibers = loop.fibers,
            .role_of_certificate = role_of_certificate()},
        accept, std::move(socket));
  }
};

}  // namespace

std::unique_ptr<FrontEnd> make_grpc_front_end(const FrontEndParts& parts) {
  return std::make_unique<GrpcFrontEnd>(parts);
}

}  // namespace sluice::server
