// Limits in a gRPC server, for the service grpc.health.v1.Health.
#include <grpcpp/grpcpp.h>
#include <sluice/middleware/grpc.h>
#include <sluice/sluice.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"

using namespace std::chrono_literals;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

constexpr sluice::Limit kPerUser = sluice::sliding_window_log(2).per(60s);

// [start charges]
std::vector<sluice::NamedCharge> charges(std::string_view, const grpc::ServerContextBase& context) {
  const auto user = context.client_metadata().find("user");
  if (user == context.client_metadata().end()) return {};  // not limited
  return {{"user", std::string(user->second.data(), user->second.size()), kPerUser}};
}
// [end charges]

class Service final : public Health::Service {
 public:
  explicit Service(const sluice::GrpcLimits& limits) : limits_(limits) {}

  grpc::Status Check(grpc::ServerContext* context, const HealthCheckRequest*,
                     HealthCheckResponse* response) override {
    if (limits_.refuses(*context)) return grpc::Status::CANCELLED;
    std::puts("the method does its work");
    response->set_status(HealthCheckResponse::SERVING);
    return grpc::Status::OK;
  }

 private:
  const sluice::GrpcLimits& limits_;
};

}  // namespace

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  // [start server]
  auto limits = std::make_unique<sluice::GrpcLimits>(limiter, charges);
  Service service(*limits);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::move(limits));

  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  // [end server]

  const auto stub = Health::NewStub(server->InProcessChannel({}));
  const auto call = [&](const char* user) {
    grpc::ClientContext context;
    if (user != nullptr) context.AddMetadata("user", user);
    HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, {}, &response);
    const bool has_wait = status.error_details().find("google.rpc.RetryInfo") != std::string::npos;
    std::printf("code %d%s\n", status.error_code(), has_wait ? ", and when to retry" : "");
  };
  for (int i = 0; i < 3; ++i) call("anna");
  call("ben");
  call(nullptr);
  server->Shutdown();
}
