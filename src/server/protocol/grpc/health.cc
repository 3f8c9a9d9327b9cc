#include "server/protocol/grpc/health.h"

#include <google/protobuf/stubs/logging.h>

#include "grpc/health/v1/health.pb.h"

namespace sluice::server::grpc {

std::string_view health_message(Health health) noexcept {
  // Each text is the field `status`, an enumeration.
  switch (health) {
    case Health::kServing: return "\x08\x01";
    case Health::kNotServing: return "\x08\x02";
    case Health::kServiceUnknown: break;
  }
  return "\x08\x03";
}

void check_health(std::string_view request, bool serving, Reply& reply) {
  const google::protobuf::LogSilencer quiet;  // no log lines about a client's input
  ::grpc::health::v1::HealthCheckRequest message;
  if (!message.ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    return reply.fail(Code::kInvalidArgument, "the message is not a HealthCheckRequest");
  }
  if (!message.service().empty() && message.service() != "ratelimit") {
    return reply.fail(Code::kNotFound, "unknown service; expected \"\" or \"ratelimit\"");
  }
  reply.bytes = health_message(serving ? Health::kServing : Health::kNotServing);
}

}  // namespace sluice::server::grpc
