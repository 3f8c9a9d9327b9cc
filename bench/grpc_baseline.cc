// The baseline of the gRPC front end: a grpc++ callback server that always answers OK.
//
//   grpc_baseline 127.0.0.1:8082
//   h2load -n 200000 -c 8 -m 32 -t 1 -d request.bin -H 'content-type: application/grpc'
//     -H 'te: trailers'
//     http://127.0.0.1:8082/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>

#include "envoy/service/ratelimit/v3/rls.grpc.pb.h"

namespace {

namespace rls = envoy::service::ratelimit::v3;

class AlwaysOk final : public rls::RateLimitService::CallbackService {
  grpc::ServerUnaryReactor* ShouldRateLimit(grpc::CallbackServerContext* context,
                                            const rls::RateLimitRequest* request,
                                            rls::RateLimitResponse* response) override {
    response->set_overall_code(rls::RateLimitResponse::OK);
    for (int i = 0; i < request->descriptors_size(); ++i) {
      auto& status = *response->add_statuses();
      status.set_code(rls::RateLimitResponse::OK);
      status.mutable_current_limit()->set_requests_per_unit(5);
      status.mutable_current_limit()->set_unit(rls::RateLimitResponse::RateLimit::MINUTE);
      status.set_limit_remaining(4);
      status.mutable_duration_until_reset()->set_seconds(10);
    }
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main(int count, char** arguments) {
  AlwaysOk service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(count > 1 ? arguments[1] : "127.0.0.1:0",
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  std::puts("ready");
  std::fflush(stdout);
  server->Wait();
}
