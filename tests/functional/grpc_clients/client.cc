// Calls the gRPC server at the first argument, and the server at the second argument, which does
// not answer in time, with the stubs of proto/. Prints the answers as one JSON object.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "envoy/service/ratelimit/v3/rls.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace {

namespace rls = envoy::service::ratelimit::v3;
namespace health = grpc::health::v1;

std::shared_ptr<grpc::Channel> channel_to(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

void wait_for(grpc::ClientContext& context, std::chrono::milliseconds wait) {
  context.set_deadline(std::chrono::system_clock::now() + wait);
}

constexpr std::chrono::milliseconds kLong{5000};

rls::RateLimitRequest request_of(const std::string& domain, const std::vector<std::string>& keys) {
  rls::RateLimitRequest request;
  request.set_domain(domain);
  for (const std::string& key : keys) {
    auto& entry = *request.add_descriptors()->add_entries();
    entry.set_key(key);
    entry.set_value("c++");
  }
  return request;
}

int code_of(const grpc::Status& status) { return static_cast<int>(status.error_code()); }

int ask(rls::RateLimitService::Stub& stub, const rls::RateLimitRequest& request,
        rls::RateLimitResponse& response, std::chrono::milliseconds wait = kLong) {
  grpc::ClientContext context;
  wait_for(context, wait);
  return code_of(stub.ShouldRateLimit(&context, request, &response));
}

void print_limits(rls::RateLimitService::Stub& stub) {
  rls::RateLimitResponse response;
  std::printf("\"codes\":[");
  for (int i = 0; i < 3; ++i) {
    const int code = ask(stub, request_of("shop", {"user", "free", "none"}), response);
    const auto& overall = rls::RateLimitResponse::Code_Name(response.overall_code());
    std::printf("%s\"%s\"", i > 0 ? "," : "", code == 0 ? overall.c_str() : "failed");
  }
  if (response.statuses_size() != 3) return;
  const auto& user = response.statuses(0);
  const auto& limit = user.current_limit();
  std::printf("],\"status\":{\"code\":\"%s\",\"limit\":%u,\"unit\":\"%s\",\"name\":\"%s\",",
              rls::RateLimitResponse::Code_Name(user.code()).c_str(), limit.requests_per_unit(),
              rls::RateLimitResponse::RateLimit::Unit_Name(limit.unit()).c_str(),
              limit.name().c_str());
  std::printf("\"remaining\":%u},\"reset\":%lld,\"free\":%u,\"none\":%s", user.limit_remaining(),
              static_cast<long long>(user.duration_until_reset().seconds()),
              response.statuses(1).limit_remaining(),
              response.statuses(2).has_current_limit() ? "true" : "null");
}

int call_unknown(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  wait_for(context, kLong);
  const grpc::ByteBuffer empty(nullptr, 0);
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(
      &context, "/envoy.service.ratelimit.v3.RateLimitService/Unknown", empty, &queue);
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return code_of(status);
}

void print_health(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = health::Health::NewStub(channel);
  health::HealthCheckRequest request;
  health::HealthCheckResponse response;
  grpc::ClientContext context;
  grpc::ClientContext other;
  grpc::ClientContext watching;
  for (grpc::ClientContext* one : {&context, &other, &watching}) wait_for(*one, kLong);
  request.set_service("ratelimit");
  stub->Check(&context, request, &response);
  const auto name = [&] {
    return health::HealthCheckResponse::ServingStatus_Name(response.status());
  };
  std::printf(",\"check\":\"%s\"", name().c_str());
  request.set_service("other");
  std::printf(",\"nobody\":%d", code_of(stub->Check(&other, request, &response)));
  request.set_service("");
  const auto reader = stub->Watch(&watching, request);
  response.Clear();
  reader->Read(&response);
  std::printf(",\"watch\":\"%s\"", name().c_str());
  watching.TryCancel();
}

template <typename Service, typename Request, typename Response>
void print_services(const char* version, const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = Service::NewStub(channel);
  grpc::ClientContext context;
  wait_for(context, kLong);
  Request request;
  request.set_list_services("");
  Response response;
  const auto stream = stub->ServerReflectionInfo(&context);
  stream->Write(request);
  stream->Read(&response);
  std::vector<std::string> names;
  for (const auto& one : response.list_services_response().service()) names.push_back(one.name());
  std::sort(names.begin(), names.end());
  std::printf("\"%s\":[", version);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::printf("%s\"%s\"", i > 0 ? "," : "", names[i].c_str());
  }
  std::printf("]");
  context.TryCancel();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const auto channel = channel_to(arguments[1]);
  const auto stub = rls::RateLimitService::NewStub(channel);
  const auto stuck = rls::RateLimitService::NewStub(channel_to(arguments[2]));
  rls::RateLimitResponse response;
  std::printf("{");
  print_limits(*stub);
  std::printf(",\"invalid\":%d", ask(*stub, request_of("", {"user"}), response));
  std::printf(",\"unknown\":%d", call_unknown(channel));
  std::printf(",\"deadline\":%d",
              ask(*stuck, request_of("shop", {"user"}), response, std::chrono::milliseconds{150}));
  print_health(channel);
  std::printf(",\"services\":{");
  namespace v1 = grpc::reflection::v1;
  namespace alpha = grpc::reflection::v1alpha;
  print_services<v1::ServerReflection, v1::ServerReflectionRequest, v1::ServerReflectionResponse>(
      "v1", channel);
  std::printf(",");
  print_services<alpha::ServerReflection, alpha::ServerReflectionRequest,
                 alpha::ServerReflectionResponse>("v1alpha", channel);
  std::printf("}}\n");
  return 0;
}
